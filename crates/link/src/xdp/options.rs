//! How the queues of a device are opened.

/// The copy mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u16)]
pub enum XdpMode {
    /// Zero copy if the driver supports it, otherwise copy.
    #[default]
    Auto = 0,
    /// The kernel copies, once per frame (`XDP_COPY`).
    Copy = libc::XDP_COPY,
    /// Zero copy only; otherwise opening fails (`XDP_ZEROCOPY`).
    ZeroCopy = libc::XDP_ZEROCOPY,
}

/// Where the program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpHook {
    /// In the driver if supported, otherwise generic.
    #[default]
    Auto,
    /// In the driver only; otherwise opening fails.
    Native,
    /// Generic, after the driver: works with every device; slow.
    Generic,
}

/// Options of AF_XDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpOptions {
    /// The copy mode.
    pub mode: XdpMode,
    /// Where the program runs.
    pub hook: XdpHook,
    /// Wake the kernel only when it requests it (`XDP_USE_NEED_WAKEUP`), rather than at every burst.
    pub need_wakeup: bool,
}
