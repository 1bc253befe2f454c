"""Read bundles: untrusted archives, checked member by member and never unpacked."""
