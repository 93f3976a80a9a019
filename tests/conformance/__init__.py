"""What this Guardian and its client do of the Agent Control Standard, and the page that says so."""
