//! The ring and its provided buffers: all unsafe code of the io_uring engine.

use super::shortage::Shortage;
use crate::engine::streams::Stable;
use crate::system::memory::Pages;
use crate::system::message::{empty_header, stride};
use crate::time::Time;
use io_uring::squeue::Entry;
use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use nix::sys::signal::SigSet;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU16, Ordering};

/// Flags of `io_uring_enter(2)`: wait for and run completions; the argument is a [`WaitArgument`].
const ENTER_GETEVENTS: u32 = 1 << 0;
const ENTER_EXT_ARG: u32 = 1 << 3;

/// The kernel's own signal set has 64 bits; libc's type is larger.
const KERNEL_SIGNAL_SET_BYTES: u32 = 8;

/// `struct io_uring_getevents_arg`. Defined here because the library passes the size of libc's signal set, which the
/// kernel rejects.
#[repr(C)]
struct WaitArgument {
    mask: *const libc::sigset_t,
    mask_bytes: u32,
    minimum_wait_microseconds: u32,
    timeout: *const KernelTimespec,
}

/// `struct __kernel_timespec`.
#[repr(C)]
struct KernelTimespec {
    seconds: i64,
    nanoseconds: i64,
}

/// Passes without a completion after which cancelled operations are left to the kernel. One pass ends about twenty.
const IDLE_ROUNDS: u32 = 100;

/// Set in the user data of operations that complete only when they fail.
pub(crate) const COMPLETES_ON_FAILURE: u64 = 1 << 61;

/// The word of `struct io_uring_sqe` with `optlen`.
const OPTION_LENGTH_WORD: usize = 11;
const _: () = assert!(size_of::<Entry>() == 64);

/// The number of completions that ends a gathering wait early.
const GATHERED: u32 = 32;

/// The memory that a ring locks, as far as the kernel accounts for it: whole pages for submissions (64 bytes each),
/// completions (16 bytes each, beside a head and an index of submissions), and each group of buffers (16 bytes each).
pub(crate) fn locked_bytes(submissions: u32, completions: u32, buffers: &[u16]) -> u64 {
    /// `struct io_rings`, rounded up to a cache line.
    const HEAD_BYTES: u64 = 320;
    const PAGE_BYTES: u64 = 4_096;
    let (submissions, completions) = (u64::from(submissions), u64::from(completions));
    let queues = [submissions * 64, HEAD_BYTES + completions * 16 + submissions * 4];
    let buffers = buffers.iter().map(|count| u64::from(*count) * 16);
    let pages = queues
        .into_iter()
        .chain(buffers)
        .map(|bytes| bytes.div_ceil(PAGE_BYTES));
    pages.sum::<u64>() * PAGE_BYTES
}

/// One completion of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub(crate) user_data: u64,
    pub(crate) result: i32,
    /// More completions of this operation follow.
    pub(crate) more: bool,
    /// The provided buffer that was used.
    pub(crate) buffer: Option<u16>,
}

/// A submission and completion queue of the calling thread.
pub(crate) struct Ring {
    ring: IoUring,
    /// Operations queued whose last completion is outstanding, except those that complete only on failure.
    outstanding: usize,
    /// Sends can go through the queue, see [`Ring::send`]. Linux 6.10.
    pub(crate) sends: bool,
    /// A wait can batch completions (Linux 6.12).
    pub(crate) gathers: bool,
    /// Bytes after which a receive of a connection ends; 0 if the kernel decides.
    pub(crate) burst_bytes: u32,
    /// Receives of connections are not multishot, see [`Ring::cannot_bound`].
    single: bool,
    /// Why an operation could not be queued: returned by the next submission.
    failure: Option<io::Error>,
}

impl Ring {
    /// A ring with room for that many submissions and completions, both powers of two. On Linux 6.1 and later only the
    /// calling thread may use it, and completions run within that thread's calls.
    pub(crate) fn new(submissions: u32, completions: u32) -> io::Result<Self> {
        let plain = || {
            let mut builder = IoUring::builder();
            builder.setup_cqsize(completions).setup_submit_all();
            builder
        };
        let own_thread = plain()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(submissions);
        let ring = match own_thread {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                plain().setup_coop_taskrun().build(submissions)?
            }
            built => built?,
        };
        let parameters = ring.params();
        let needed = [
            parameters.is_feature_ext_arg(),
            parameters.is_feature_nodrop(),
            parameters.is_feature_submit_stable(),
        ];
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        // Multishot receives cannot be probed; they came with Linux 6.0, like SEND_ZC.
        let operations = [
            opcode::PollAdd::CODE,
            opcode::RecvMsgMulti::CODE,
            opcode::AsyncCancel::CODE,
            opcode::SendZc::CODE,
        ];
        if needed.contains(&false) || !operations.iter().all(|code| probe.is_supported(*code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self {
            // Earlier kernels lost the count of a partial send that would have blocked; Linux 6.10 is well past them.
            sends: parameters.is_feature_recvsend_bundle(),
            gathers: parameters.is_feature_min_timeout(),
            burst_bytes: 0,
            single: false,
            ring,
            outstanding: 0,
            failure: None,
        })
    }

    /// Queues a poll for room to send; it completes once.
    pub(crate) fn await_room(&mut self, descriptor: i32, user_data: u64) {
        self.poll(descriptor, libc::POLLOUT, user_data);
    }

    /// Queues a poll for a reset; it completes once.
    pub(crate) fn await_reset(&mut self, descriptor: i32, user_data: u64) {
        self.poll(descriptor, libc::POLLERR | libc::POLLHUP, user_data);
    }

    fn poll(&mut self, descriptor: i32, events: i16, user_data: u64) {
        let entry = opcode::PollAdd::new(Fd(descriptor), events as u32).build();
        self.push(&entry.user_data(user_data));
    }

    /// Queues a multishot receive into provided buffers.
    pub(crate) fn receive(&mut self, descriptor: i32, buffers: &BufferRing, user_data: u64) {
        let header: *const libc::msghdr = &*buffers.template;
        let entry = opcode::RecvMsgMulti::new(Fd(descriptor), header, buffers.group).build();
        self.push(&entry.user_data(user_data));
    }

    /// Queues a receive of a connection's bytes into provided buffers: multishot, or single after
    /// [`cannot_bound`](Self::cannot_bound). It ends after [`burst_bytes`](Self::burst_bytes): the rest stays in the
    /// socket until the receive is queued again.
    pub(crate) fn receive_stream(&mut self, descriptor: i32, buffers: &BufferRing, user_data: u64) {
        if self.single {
            let entry = opcode::Recv::new(Fd(descriptor), std::ptr::null_mut(), self.burst_bytes)
                .buf_group(buffers.group)
                .build()
                .flags(squeue::Flags::BUFFER_SELECT);
            return self.push(&entry.user_data(user_data));
        }
        let entry = opcode::RecvMulti::new(Fd(descriptor), buffers.group).build();
        let mut entry = entry.user_data(user_data);
        if self.burst_bytes > 0 {
            let words: *mut Entry = &mut entry;
            // SAFETY: an entry is a `struct io_uring_sqe` of 16 words, borrowed here; word 11 is `optlen`, for which the
            // library has no setter, and any value is valid.
            unsafe {
                words
                    .cast::<u32>()
                    .add(OPTION_LENGTH_WORD)
                    .write(self.burst_bytes);
            }
        }
        self.push(&entry);
    }

    /// Whether a receive that is queued now depends on the kernel to bound it (Linux 6.17).
    pub(crate) fn bounds(&self) -> bool {
        self.burst_bytes > 0 && !self.single
    }

    /// The kernel has rejected a bounded multishot receive: each receive takes one buffer from now on.
    pub(crate) fn cannot_bound(&mut self) {
        self.single = true;
    }

    /// Queues a multishot accept; each connection comes as a completion, see [`Ring::accepted`].
    pub(crate) fn accept(&mut self, descriptor: i32, user_data: u64) {
        let entry = opcode::AcceptMulti::new(Fd(descriptor))
            .flags(libc::SOCK_CLOEXEC)
            .build();
        self.push(&entry.user_data(user_data));
    }

    /// The connection of a completed accept; none if it failed.
    pub(crate) fn accepted(&self, completion: &Completion) -> Option<OwnedFd> {
        if completion.result < 0 {
            return None;
        }
        // SAFETY: the kernel opened this descriptor for the accept, and nothing else owns it: a completion is taken
        // once, and the engine calls this once per completion of an accept.
        Some(unsafe { OwnedFd::from_raw_fd(completion.result) })
    }

    /// Queues bytes of a connection. On submission the kernel accepts as many as it has room for and never waits. A
    /// full send posts no completion; a partial send completes with the number of bytes, a failed one with an error.
    pub(crate) fn send(&mut self, descriptor: i32, bytes: &Stable<'_>, user_data: u64) {
        // With MSG_WAITALL and MSG_DONTWAIT a partial send counts as a failure, which is reported.
        let flags = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
        let bytes = bytes.bytes();
        let entry = opcode::Send::new(Fd(descriptor), bytes.as_ptr(), bytes.len() as u32)
            .flags(flags)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS);
        self.push(&entry.user_data(user_data | COMPLETES_ON_FAILURE));
    }

    /// Whether the kernel has everything that was queued.
    pub(crate) fn is_submitted(&mut self) -> bool {
        self.ring.submission().is_empty()
    }

    /// Queues the cancellation of the operation with that user data. Its own completion has user data 0.
    pub(crate) fn cancel(&mut self, user_data: u64) {
        self.push(&opcode::AsyncCancel::new(user_data).build());
    }

    /// Queues an operation. If the kernel rejects earlier ones, the next submission returns the error.
    fn push(&mut self, entry: &Entry) {
        if self.ring.submission().is_full() {
            self.submit_now();
        }
        // SAFETY: the memory that an entry points at stays valid: a receive's header and buffers live in the engine
        // beside this ring, and its `Drop` ends all operations before they are freed. A send's bytes are `Stable`: they
        // live as long as that engine. The other operations contain no pointers.
        match unsafe { self.ring.submission().push(entry) } {
            Ok(()) => self.outstanding += usize::from(entry.get_user_data() & COMPLETES_ON_FAILURE == 0),
            Err(_) => self.fail_busy(),
        }
    }

    fn fail_busy(&mut self) {
        let busy = || io::Error::from_raw_os_error(libc::EBUSY);
        self.failure.get_or_insert_with(busy);
    }

    /// Submits all queued operations and runs completions, without waiting.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)?;
        let queued = self.ring.submission().len() as u32;
        // SAFETY: no argument is passed; `push` guarantees that the memory the queued entries point at is valid.
        let entered = unsafe {
            self.ring
                .submitter()
                .enter::<WaitArgument>(queued, 0, ENTER_GETEVENTS, None)
        };
        endured(entered)
    }

    /// Like [`submit`](Self::submit); the next submission returns a failure.
    pub(crate) fn submit_now(&mut self) {
        self.failure = self.submit().err();
    }

    /// Like [`submit_now`](Self::submit_now), for callers that need everything in the kernel before they continue: if
    /// it does not accept everything, the next submission fails.
    pub(crate) fn submit_all(&mut self) {
        if !self.is_submitted() {
            self.submit_now();
        }
        if !self.is_submitted() {
            self.fail_busy();
        }
    }

    /// Submits all queued operations and waits for a completion until `until`, with a signal mask. Completions may
    /// gather until `gathered` if the kernel supports it.
    pub(crate) fn wait(&mut self, until: Time, gathered: Time, while_waiting: &SigSet) -> io::Result<()> {
        self.failure.take().map_or(Ok(()), Err)?;
        let queued = self.ring.submission().len() as u32;
        let now = Time::now();
        let left = until.since(now);
        let gathering = if self.gathers {
            gathered.min(until).since(now).as_nanos().div_ceil(1_000) as u32
        } else {
            0
        };
        let wanted = if gathering > 0 { GATHERED } else { 1 };
        let timeout = KernelTimespec {
            seconds: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: i64::from(left.subsec_nanos()),
        };
        let argument = WaitArgument {
            mask: while_waiting.as_ref(),
            mask_bytes: KERNEL_SIGNAL_SET_BYTES,
            minimum_wait_microseconds: gathering,
            timeout: match until {
                Time::NEVER => std::ptr::null(),
                _ => &timeout,
            },
        };
        // SAFETY: the argument and the memory it points at outlive the call and have the kernel's layout; `push`
        // guarantees that the memory the queued entries point at is valid.
        let entered = unsafe {
            self.ring
                .submitter()
                .enter(queued, wanted, ENTER_GETEVENTS | ENTER_EXT_ARG, Some(&argument))
        };
        endured(entered)
    }

    /// Takes the next available completion.
    pub(crate) fn take(&mut self) -> Option<Completion> {
        let entry = self.ring.completion().next()?;
        let more = cqueue::more(entry.flags());
        let counted = entry.user_data() & COMPLETES_ON_FAILURE == 0;
        self.outstanding -= usize::from(!more && counted);
        Some(Completion {
            user_data: entry.user_data(),
            result: entry.result(),
            more,
            buffer: cqueue::buffer_select(entry.flags()),
        })
    }

    /// Discards completions until every operation has ended; all must have been cancelled.
    ///
    /// An operation that the kernel does not end is left to the close of the ring, which cancels it; the kernel
    /// accesses the memory of operations only within calls of this thread.
    pub(crate) fn drain(&mut self) {
        let mut idle = 0;
        while self.outstanding > 0 && idle < IDLE_ROUNDS {
            let before = self.outstanding;
            if self.submit().is_err() {
                return;
            }
            while self.take().is_some() {}
            idle = if self.outstanding < before { 0 } else { idle + 1 };
        }
    }
}

/// A wait that ended without a completion is not a failure: it timed out, a signal arrived, or completions must be
/// taken before more can be submitted.
fn endured(entered: io::Result<usize>) -> io::Result<()> {
    match entered.map_err(|error| (error.raw_os_error(), error)) {
        Err((Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN), _)) | Ok(_) => Ok(()),
        Err((_, error)) => Err(error),
    }
}

/// Receive memory from which the kernel selects buffers; each is returned after it was lent.
pub(crate) struct BufferRing {
    pub(super) shortage: Shortage,
    entries: Pages,
    memory: Pages,
    stride: usize,
    buffer_bytes: u32,
    count: u16,
    group: u16,
    tail: u16,
    /// What every multishot receive requests: the peer's address, and control messages.
    template: Box<libc::msghdr>,
}

impl BufferRing {
    /// The buffer groups of a ring.
    pub(crate) const DATAGRAMS: u16 = 0;
    pub(crate) const STREAMS: u16 = 1;

    /// Registers a group of `count` buffers (a power of two) of `buffer_bytes`, of which one receive takes up to `each`.
    /// Message receives also store an address of `address_bytes` and control messages of `control_bytes`.
    pub(crate) fn new(
        ring: &Ring,
        group: u16,
        (count, each): (u16, usize),
        buffer_bytes: usize,
        [address_bytes, control_bytes]: [usize; 2],
    ) -> io::Result<Self> {
        let stride = stride(buffer_bytes);
        let entries = Pages::new(usize::from(count) * size_of::<BufRingEntry>())?;
        let mut template = Box::new(empty_header());
        template.msg_namelen = address_bytes as libc::socklen_t;
        template.msg_controllen = control_bytes as _;
        // SAFETY: the entries are page-aligned, zeroed, large enough for `count`, and live beside the ring in the
        // engine, whose `Drop` ends all operations before either is freed.
        unsafe {
            ring.ring
                .submitter()
                .register_buf_ring_with_flags(entries.pointer(0) as u64, count, group, 0)?;
        }
        let mut buffers = Self {
            shortage: Shortage::new(usize::from(count), each),
            entries,
            memory: Pages::new(usize::from(count) * stride)?,
            stride,
            buffer_bytes: buffer_bytes as u32,
            count,
            group,
            tail: 0,
            template,
        };
        (0..count).for_each(|buffer| buffers.recycle(buffer));
        buffers.publish();
        Ok(buffers)
    }

    pub(crate) fn memory(&self) -> &Pages {
        &self.memory
    }

    /// The offset of a buffer in the memory.
    pub(crate) fn offset(&self, buffer: u16) -> usize {
        usize::from(buffer) * self.stride
    }

    /// The first `length` bytes of a buffer, as filled by the kernel.
    pub(crate) fn filled(&self, buffer: u16, length: i32) -> &[u8] {
        let start = self.offset(buffer);
        self.memory.bytes(start..start + length.max(0) as usize)
    }

    /// Returns a buffer; the kernel sees it after [`BufferRing::publish`].
    pub(crate) fn recycle(&mut self, buffer: u16) {
        let index = usize::from(self.tail & (self.count - 1));
        let address = self.memory.pointer(self.offset(buffer)) as u64;
        let entry: *mut BufRingEntry = self.entries.pointer(index * size_of::<BufRingEntry>()).cast();
        // SAFETY: the pointer is to an entry inside the mapping, and aligned because the mapping is; the kernel reads
        // only entries before the published tail, and this one is not before it.
        let entry = unsafe { &mut *entry };
        entry.set_addr(address);
        entry.set_len(self.buffer_bytes);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
        self.shortage.returned();
    }

    /// Makes the returned buffers visible to the kernel.
    pub(crate) fn publish(&mut self) {
        let base: *const BufRingEntry = self.entries.pointer(0).cast();
        // SAFETY: the base is the first entry of the registered ring. Its tail is an aligned 16-bit word that only this
        // process writes and the kernel reads.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(base).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}
