"""One file per noun: tools, prompts, resources, completion, subscriptions, and the registry they share."""
