//! Opens the sockets of a lease; ports that other sockets hold are replaced by spare ones.

use crate::sources::{Lease, Ports};
use crate::udp::UdpLoadError;
use corelane_worker::group::set_receive_buffer;
use corelane_worker::outgoing::on_device_of;
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// A worker that was preempted finds the answers of that time here: by default (`net.core.rmem_default`) some 250 small
/// datagrams fit, which is less than a hundredth of a second at the rates of one worker.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;

/// Opens the sockets of a lease, connected to the target.
pub(super) fn open_sockets(
    lease: &Lease,
    target: SocketAddr,
    mut take: impl FnMut(UdpSocket) -> io::Result<()>,
) -> Result<(), UdpLoadError> {
    let (mut missing, has_spare_ports) = (lease.connections, lease.has_spare_ports());
    let is_replaceable = has_spare_ports || matches!(lease.ports, Ports::Kernel);
    // UDP servers may refuse their own port from any address, because two of them would answer each other for ever. The
    // socket stays open, so that the kernel chooses another port for the next one.
    let mut refused = None;
    for port in lease.clone().into_ports() {
        if missing == 0 {
            break;
        }
        let from = on_device_of(target, SocketAddr::new(lease.address, port));
        let opened = UdpSocket::bind(from).and_then(|socket| {
            if is_replaceable && socket.local_addr()?.port() == target.port() {
                refused = Some(socket);
                return Ok(());
            }
            set_receive_buffer(&socket, RECEIVE_BUFFER_BYTES)?;
            socket.connect(target)?;
            take(socket)?;
            missing -= 1;
            Ok(())
        });
        match opened {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && has_spare_ports => {}
            Err(error) => return Err(UdpLoadError::Source { from, error }),
        }
    }
    if missing == 0 {
        return Ok(());
    }
    Err(UdpLoadError::Source {
        from: SocketAddr::new(lease.address, 0),
        error: io::Error::new(io::ErrorKind::AddrInUse, format!("{missing} ports short")),
    })
}
