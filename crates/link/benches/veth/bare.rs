//! A bare AF_XDP receive loop: one socket, its rings and its program, set up by plain system calls, with aligned chunks
//! of 2048 bytes. It only reads the first byte of each frame.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const CHUNKS: u32 = 2048;
const CHUNK: usize = 2048;
const BURST: u32 = 256;

/// Frames per second that the loop receives from queue 0 of the bed's device.
pub fn frames_per_second(cpu: u32, round: Duration) -> io::Result<f64> {
    corelane_host::pin::current_thread(cpu).map_err(io::Error::other)?;
    let socket = Socket::open()?;
    let _attached = attach(&socket.descriptor)?;
    let (mut frames, mut first_bytes) = (0u64, 0u64);
    let started = Instant::now();
    while started.elapsed() < round {
        let count = socket.turn(&mut first_bytes);
        frames += u64::from(count);
        if count == 0 {
            std::thread::yield_now();
        }
    }
    std::hint::black_box(first_bytes);
    Ok(frames as f64 / started.elapsed().as_secs_f64())
}

struct Socket {
    descriptor: OwnedFd,
    memory: *mut u8,
    receive: *mut u8,
    fill: *mut u8,
    offsets: libc::xdp_mmap_offsets,
}

impl Socket {
    fn open() -> io::Result<Socket> {
        // SAFETY: plain system calls; every structure outlives its call, and mappings live until the process ends.
        unsafe {
            let number =
                checked(libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0).into())? as i32;
            let descriptor = OwnedFd::from_raw_fd(number);
            let bytes = CHUNKS as usize * CHUNK;
            let memory = map(-1, bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, 0)?;
            libc::madvise(memory.cast(), bytes, libc::MADV_HUGEPAGE);
            let mut registration: libc::xdp_umem_reg = std::mem::zeroed();
            registration.addr = memory as u64;
            registration.len = bytes as u64;
            registration.chunk_size = CHUNK as u32;
            set(number, libc::XDP_UMEM_REG, &registration)?;
            for option in [
                libc::XDP_UMEM_FILL_RING,
                libc::XDP_UMEM_COMPLETION_RING,
                libc::XDP_RX_RING,
            ] {
                set(number, option, &CHUNKS)?;
            }
            let mut offsets: libc::xdp_mmap_offsets = std::mem::zeroed();
            let mut length = size_of_val(&offsets) as libc::socklen_t;
            let result = libc::getsockopt(
                number,
                libc::SOL_XDP,
                libc::XDP_MMAP_OFFSETS,
                (&raw mut offsets).cast(),
                &raw mut length,
            );
            checked(result.into())?;
            let shared = libc::MAP_SHARED | libc::MAP_POPULATE;
            let descriptors = CHUNKS as usize * size_of::<libc::xdp_desc>();
            let receive = map(
                number,
                offsets.rx.desc as usize + descriptors,
                shared,
                libc::XDP_PGOFF_RX_RING,
            )?;
            let fill = map(
                number,
                offsets.fr.desc as usize + CHUNKS as usize * 8,
                shared,
                libc::XDP_UMEM_PGOFF_FILL_RING as i64,
            )?;
            for chunk in 0..CHUNKS {
                let place = fill
                    .add(offsets.fr.desc as usize + chunk as usize * 8)
                    .cast::<u64>();
                place.write(u64::from(chunk) * CHUNK as u64);
            }
            index(fill, offsets.fr.producer).store(CHUNKS, Ordering::Release);
            let mut address: libc::sockaddr_xdp = std::mem::zeroed();
            address.sxdp_family = libc::AF_XDP as u16;
            address.sxdp_ifindex = libc::if_nametoindex(c"server0".as_ptr());
            address.sxdp_flags = libc::XDP_USE_NEED_WAKEUP;
            let size = size_of_val(&address) as libc::socklen_t;
            checked(libc::bind(number, (&raw const address).cast(), size).into())?;
            Ok(Socket {
                descriptor,
                memory,
                receive,
                fill,
                offsets,
            })
        }
    }

    /// Receives up to a burst and returns the chunks to the kernel; returns the number of frames.
    fn turn(&self, first_bytes: &mut u64) -> u32 {
        let (rx, fr) = (&self.offsets.rx, &self.offsets.fr);
        // SAFETY: the kernel gave the positions of indices and entries; masked positions lie within the rings, and
        // descriptors within the memory.
        unsafe {
            let consumer = index(self.receive, rx.consumer).load(Ordering::Relaxed);
            let producer = index(self.receive, rx.producer).load(Ordering::Acquire);
            let count = producer.wrapping_sub(consumer).min(BURST);
            if count == 0 {
                return 0;
            }
            let free = index(self.fill, fr.producer).load(Ordering::Relaxed);
            for number in 0..count {
                let at = (consumer.wrapping_add(number) & (CHUNKS - 1)) as usize;
                let entry = self
                    .receive
                    .add(rx.desc as usize)
                    .cast::<libc::xdp_desc>()
                    .add(at)
                    .read();
                *first_bytes += u64::from(self.memory.add(entry.addr as usize).read());
                let to = (free.wrapping_add(number) & (CHUNKS - 1)) as usize;
                self.fill
                    .add(fr.desc as usize)
                    .cast::<u64>()
                    .add(to)
                    .write(entry.addr);
            }
            index(self.receive, rx.consumer).store(consumer.wrapping_add(count), Ordering::Release);
            index(self.fill, fr.producer).store(free.wrapping_add(count), Ordering::Release);
            count
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: the mappings belong to this socket and have the sizes with which they were created.
        unsafe {
            libc::munmap(self.memory.cast(), CHUNKS as usize * CHUNK);
            let descriptors = CHUNKS as usize * size_of::<libc::xdp_desc>();
            libc::munmap(self.receive.cast(), self.offsets.rx.desc as usize + descriptors);
            libc::munmap(
                self.fill.cast(),
                self.offsets.fr.desc as usize + CHUNKS as usize * 8,
            );
        }
    }
}

/// Loads the program of `bpf/redirect.bpf.c` and attaches it to the device for as long as the descriptors exist.
fn attach(socket: &OwnedFd) -> io::Result<[OwnedFd; 3]> {
    // SAFETY: each array is the beginning of `union bpf_attr` for its command, and what it points to outlives the call.
    unsafe {
        let map = bpf(0, &[17 | 4 << 32, 4 | 1 << 32, 0])?;
        let (key, value) = (0u32, socket.as_raw_fd());
        let update = [map as u64, (&raw const key) as u64, (&raw const value) as u64, 0];
        bpf(2, &update)?;
        let program: [u64; 6] = [
            0x0000_0000_0010_1261,
            0x1118 | (map as u64) << 32,
            0,
            0x0000_0002_0000_03b7,
            0x0000_0033_0000_0085,
            0x95,
        ];
        let license = c"Dual MIT/GPL";
        let loaded = bpf(
            5,
            &[
                6 | 6 << 32,
                program.as_ptr() as u64,
                license.as_ptr() as u64,
                0,
                0,
                0,
            ],
        )?;
        let device = u64::from(libc::if_nametoindex(c"server0".as_ptr()));
        let link = bpf(28, &[loaded as u64 | device << 32, 37 | 4 << 32])?;
        Ok([map, loaded, link].map(|descriptor| OwnedFd::from_raw_fd(descriptor as i32)))
    }
}

/// bpf(2).
///
/// # Safety
/// The attributes are those of the command, and addresses in them point to what the command reads.
unsafe fn bpf(command: i32, attributes: &[u64]) -> io::Result<i64> {
    // SAFETY: the kernel reads as many bytes as `attributes` has.
    checked(unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_ptr(),
            size_of_val(attributes),
        )
    })
}

/// The index at an offset of a ring.
///
/// # Safety
/// The kernel gave the offset for this ring, which is mapped.
unsafe fn index<'ring>(ring: *mut u8, offset: u64) -> &'ring AtomicU32 {
    // SAFETY: the caller guarantees the position; the kernel aligns it.
    unsafe { AtomicU32::from_ptr(ring.add(offset as usize).cast()) }
}

fn map(file: i32, bytes: usize, flags: i32, offset: i64) -> io::Result<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel chooses the address, so no existing memory changes.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file, offset) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(start.cast())
}

fn set<T>(socket: i32, option: i32, value: &T) -> io::Result<()> {
    let bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads as many bytes as the value has.
    checked(
        unsafe { libc::setsockopt(socket, libc::SOL_XDP, option, (&raw const *value).cast(), bytes) }.into(),
    )
    .map(drop)
}

fn checked(result: i64) -> io::Result<i64> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
