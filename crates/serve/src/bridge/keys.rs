//! Reads the file of the keys of ESP.

use super::check::{check_kinds, refused};
use super::error::BridgeError;
use corelane_stage::StagePlans;
use corelane_stage::decapsulation::Plan;
use corelane_stage::esp::Associations;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// Bits of a file's mode by which others than its owner may read, write or run it.
const OTHERS: u32 = 0o077;

/// Bytes of a file, at most: thousands of associations.
const LONGEST: u64 = 1 << 20;

/// Reads the keys of a plan, if it names a file.
///
/// # Errors
/// Why they are refused. No key is part of that.
pub fn read_keys(stages: &mut StagePlans) -> Result<(), BridgeError> {
    check_kinds(stages)?;
    read(stages).or_else(|why| refused("decapsulate", why))
}

fn read(stages: &mut StagePlans) -> Result<(), String> {
    let Some(Plan { keys: Some(keys), .. }) = &mut stages.decapsulate else {
        return Ok(());
    };
    let file = keys.file.display();
    let (mode, text) = mode_and_text(&keys.file).map_err(|error| format!("{file}: {error}"))?;
    if mode & OTHERS != 0 {
        return Err(format!(
            "{file}: others than its owner may use it: chmod 600 {file}"
        ));
    }
    let associations = Associations::parse(&text).map_err(|error| format!("{file}: {error}"))?;
    keys.associations = Arc::new(associations);
    Ok(())
}

fn mode_and_text(path: &Path) -> io::Result<(u32, String)> {
    let (mut file, mut text) = (File::open(path)?, String::new());
    let read = file.by_ref().take(LONGEST + 1).read_to_string(&mut text)?;
    match read as u64 > LONGEST {
        true => Err(io::Error::other("more than 1 MiB")),
        false => Ok((file.metadata()?.mode(), text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keys_are_read_from_a_file_that_only_its_owner_can_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        let name = path.display().to_string();
        let key = "000102030405060708090a0b0c0d0e0f10111213";
        let good = format!("[[association]]\nspi = 256\ndestination = \"192.0.2.2\"\nkey = \"{key}\"\n");
        let plan = || StagePlans {
            decapsulate: Some(Plan {
                keys: Some(path.clone().into()),
                ..Plan::default()
            }),
            ..StagePlans::default()
        };
        let refused = || read(&mut plan()).unwrap_err();
        assert!(refused().starts_with(&format!("{name}: No such file")));
        fs::write(&path, &good).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o644] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let why = format!("{name}: others than its owner may use it: chmod 600 {name}");
            assert_eq!(refused(), why, "{mode:o}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let mut plan = plan();
        read(&mut plan).unwrap();
        assert_eq!(
            format!("{:?}", plan.decapsulate.unwrap().keys.unwrap().associations),
            "{(256, 192.0.2.2)}"
        );
        fs::write(&path, good.replace(key, &key[2..])).unwrap();
        assert_eq!(
            refused(),
            format!(
                "{name}: association 0x100: its key has neither 20 nor 36 bytes, of which 4 are the salt"
            )
        );
        fs::write(&path, "#".repeat(LONGEST as usize + 1)).unwrap();
        assert_eq!(refused(), format!("{name}: more than 1 MiB"));
        read(&mut StagePlans::default()).unwrap();
    }
}
