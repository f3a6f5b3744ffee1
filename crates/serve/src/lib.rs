//! Servers with one worker a bucket.
