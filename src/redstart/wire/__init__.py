"""What is on the wire: pure data, one definition of each shape. Imports nothing of redstart."""
