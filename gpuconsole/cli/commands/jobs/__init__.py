"""Commands on jobs: looked at, waited for, changed, their results."""
