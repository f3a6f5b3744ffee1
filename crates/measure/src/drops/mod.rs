//! In: Linux's counters from `/proc/net/snmp`. Out: drops under the names of FreeBSD's `netstat -sp udp`, which the
//! posts use. [`Cause`] names every place where a frame can be dropped, not only in UDP, so that documents and tables
//! use the same names.

mod cause;

pub use cause::{Cause, Gap, Side, label};
