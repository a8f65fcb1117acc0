"""What a sandbox lacks, stood in for: files, modules, devices, downloads, older libraries."""
