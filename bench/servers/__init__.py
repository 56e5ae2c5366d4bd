"""The same small server, written once per framework, each as its own documentation would write it."""
