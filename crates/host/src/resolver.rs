//! The resolver of names of hosts and users in a statically linked program.

/// What a statically linked program says of a name that it did not find; `None` if it is linked dynamically.
pub const LIMITS: Option<&str> = if cfg!(target_feature = "crt-static") {
    Some(
        "this static binary asks /etc/hosts and the DNS servers of /etc/resolv.conf, but no other resolver of this system \
         (/etc/nsswitch.conf); an address always works",
    )
} else {
    None
};

/// Keeps the resolver of a static program to what it contains: /etc/hosts and DNS, and /etc/passwd. The other services of
/// /etc/nsswitch.conf are shared libraries for the glibc of the system, and a static program with another glibc may crash
/// when it loads them.
pub fn without_shared_libraries() {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    {
        // SAFETY: as <nss.h> of glibc declares it.
        unsafe extern "C" {
            fn __nss_configure_lookup(
                database: *const libc::c_char,
                services: *const libc::c_char,
            ) -> libc::c_int;
        }
        for (database, services) in [(c"hosts", c"files dns"), (c"passwd", c"files")] {
            // SAFETY: both are strings that end in a zero byte; glibc copies what it needs of them, under a lock.
            unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
        }
    }
}
