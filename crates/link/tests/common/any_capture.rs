//! Properties of the capture reader for arbitrary bytes: used by a test over the kept corpus and by the fuzz target.

use corelane_link::capture::{CaptureReader, CaptureWriter};
use std::fs;
use std::path::Path;

/// Reads `bytes` as a file in `folder`, up to its end or to the first damage. Asserts that the frames have no more
/// bytes than the file and the Ethernet headers that they may get, and that the same frames are read back from a file written with them.
pub fn holds(bytes: &[u8], folder: &Path) {
    let (given, copied) = (folder.join("given"), folder.join("copied.pcapng"));
    fs::write(&given, bytes).expect("the folder can be written");
    let frames = read(&given);
    let total: usize = frames.iter().map(Vec::len).sum();
    let most = bytes.len() + 14 * frames.len();
    assert!(total <= most, "{total} bytes of frames in {}", bytes.len());
    let mut writer = CaptureWriter::create(&copied).expect("the folder can be written");
    for frame in &frames {
        writer
            .write(1, frame.len() as u32, frame)
            .expect("the folder can be written");
    }
    writer.flush().expect("the folder can be written");
    assert_eq!(read(&copied), frames);
}

/// The frames of a file up to the first damage.
fn read(path: &Path) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let Ok(mut reader) = CaptureReader::open(path) else {
        return frames;
    };
    while let Ok(Some(frame)) = reader.next_frame() {
        frames.push(frame.data.to_vec());
    }
    assert!(reader.is_ended());
    assert!(matches!(reader.next_frame(), Ok(None)), "it is read no further");
    frames
}
