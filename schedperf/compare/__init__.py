"""Compare sides: bundles or tables become one record, with its reasons and next steps."""
