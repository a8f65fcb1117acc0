"""What has nothing to do with the domain: times as people say them, plots, folders of a user."""
