//! The table of a running server: what changes it, and where others can read it.
//!
//! Input: the server, and what its table comes from: a device that it follows, or a file that SIGHUP reads again.
//! Output: the steering document in a memory file for `explain` and in the file of `--write-steering`, from before the
//! server is announced, and again after every change.

use super::device::Followed;
use crate::documents::{check_output, write_whole};
use crate::interrupt::Asked;
use crate::log::log_line;
use crate::outcome::{Outcome, usage};
use crate::steering;
use corelane_host::published::{OF_SOCKETS, Published};
use corelane_rss::{IndirectionTable, Steering};
use corelane_serve::TableError;
use corelane_worker::steered::SteeredGroup;
use signal_hook::consts::SIGHUP;
use std::path::{Path, PathBuf};

/// The table of a running server: its sources and readers.
#[derive(Default)]
pub struct LiveTable {
    followed: Option<Followed>,
    /// The file of `--steering`, and SIGHUP, which reads it again; `None` while a device is followed.
    reread: Option<(PathBuf, Asked)>,
    /// The file of `--write-steering`.
    file: Option<PathBuf>,
    /// `None` if it could not be published: `explain` then reports that it is not known.
    published: Option<Published>,
    /// The generation published last.
    generation: u64,
}

impl LiveTable {
    /// The table comes from `followed`, else from the file `given`, else it stays; it is written to `file`.
    pub fn new(
        followed: Option<Followed>,
        given: Option<&Path>,
        file: Option<PathBuf>,
    ) -> std::io::Result<Self> {
        let given = given.filter(|_| followed.is_none());
        let reread = given.map(|path| Asked::catch(SIGHUP).map(|asked| (path.to_owned(), asked)));
        Ok(Self {
            followed,
            reread: reread.transpose()?,
            file,
            ..Self::default()
        })
    }

    /// The steering of the device that is followed.
    pub fn of_device(&self) -> Option<&Steering> {
        self.followed.as_ref().map(Followed::steering)
    }

    /// Checks before the server starts that the file can be written.
    pub fn check(&self) -> Outcome {
        let file = self.file.as_deref();
        file.map_or(Ok(()), |file| check_output(FLAG, file))
    }

    /// Publishes the steering of a server that has started; `None` if its sockets are not steered by a table.
    pub fn begin(&mut self, steering: Option<&Steering>) -> Outcome {
        let Some(steering) = steering else {
            let reason = "this model has no socket per bucket, steered by a table: use --model exact";
            return self.file.as_ref().map_or(Ok(()), |_| Err(usage(FLAG, reason)));
        };
        self.generation = steering.generation;
        self.published = Published::new(OF_SOCKETS, &serde_json::to_string(steering)?).ok();
        self.write(steering)
    }

    /// Follows the device or rereads the file, and publishes the table if anything has changed it.
    ///
    /// # Errors
    /// The device changed in a way that sockets cannot follow: the server has to end.
    pub fn look(&mut self, mut group: Option<&mut SteeredGroup>) -> Outcome {
        let mut said = None;
        if let Some(followed) = &mut self.followed
            && let Some(table) = followed.changed()?
        {
            said = Some(followed.applied(change(group.as_deref_mut(), table)?));
        }
        if let Some((path, asked)) = &self.reread
            && asked.taken()
        {
            said = Some(match reread(path, group.as_deref_mut()) {
                Ok((moved, entries)) => {
                    let path = path.display();
                    format!("{path} was read again: {moved} of {entries} entries moved")
                }
                Err(error) => format!("the table stays as it was: {error:#}"),
            });
        }
        if let Some(steering) = group.as_deref().map(SteeredGroup::steering)
            && steering.generation != self.generation
        {
            self.generation = steering.generation;
            if let Some(published) = &mut self.published {
                published.replace(&serde_json::to_string(steering)?)?;
            }
            // A full disk does not end a server: the next change is written again.
            if let Err(error) = self.write(steering) {
                log_line(&format!("{error:#}: the file has an older table"));
            }
        }
        if let Some(said) = said {
            log_line(&said);
        }
        Ok(())
    }

    fn write(&self, steering: &Steering) -> Outcome {
        let Some(file) = &self.file else { return Ok(()) };
        let text = serde_json::to_string(steering)? + "\n";
        write_whole(file, &text).map_err(|error| anyhow::anyhow!("{FLAG}: {}: {error}", file.display()))
    }
}

/// Applies the table of a steering document; returns how many of how many entries moved.
fn reread(path: &Path, group: Option<&mut SteeredGroup>) -> anyhow::Result<(usize, usize)> {
    let given = steering::from_file(path)?;
    if let Some(present) = group.as_deref().map(SteeredGroup::steering) {
        let with_table = Steering {
            table: given.table.clone(),
            generation: given.generation,
            ..present.clone()
        };
        if with_table != given {
            anyhow::bail!(
                "{}: only the table may change: restart the server for another key, other fields or CPUs",
                path.display()
            );
        }
    }
    let entries = given.table.size();
    Ok((change(group, given.table)?, entries))
}

/// Replaces the table; returns how many entries moved.
fn change(group: Option<&mut SteeredGroup>, table: IndirectionTable) -> Result<usize, TableError> {
    Ok(group.ok_or(TableError::None)?.change(table)?)
}

const FLAG: &str = "--write-steering";
