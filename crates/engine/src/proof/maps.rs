//! The mappings of this process.

use super::evidence::{Object, Place, SharedObject};

/// One line of `/proc/self/maps`, and from `smaps` what was touched of it.
#[derive(Debug, PartialEq)]
struct Mapping {
    start: u64,
    end: u64,
    is_shared: bool,
    is_writable: bool,
    offset: u64,
    object: Object,
    name: String,
    referenced_bytes: Option<u64>,
}

/// All mappings, in the order of their addresses.
#[derive(Debug, Default)]
pub(super) struct Maps(Vec<Mapping>);

impl Maps {
    /// Reads the text of `maps` or of `smaps`.
    ///
    /// # Source
    /// proc_pid_maps(5), proc_pid_smaps(5)
    pub fn parse(text: &str) -> Self {
        let mut mappings: Vec<Mapping> = Vec::new();
        for line in text.lines() {
            if let Some(mapping) = parse_mapping(line) {
                mappings.push(mapping);
            } else if let (Some(value), Some(last)) = (line.strip_prefix("Referenced:"), mappings.last_mut()) {
                let kilobytes = value.trim().trim_end_matches("kB").trim().parse::<u64>();
                last.referenced_bytes = kilobytes.ok().map(|count| count * 1024);
            }
        }
        Self(mappings)
    }

    /// The objects mapped as shared, each once.
    pub fn shared_objects(&self) -> Vec<SharedObject> {
        let mut objects: Vec<SharedObject> = Vec::new();
        for mapping in self.0.iter().filter(|mapping| mapping.is_shared) {
            let bytes = mapping.end - mapping.start;
            if let Some(known) = objects.iter_mut().find(|known| known.object == mapping.object) {
                known.bytes += bytes;
                known.is_writable |= mapping.is_writable;
                known.touched_bytes = known.touched_bytes.zip(mapping.referenced_bytes).map(|(a, b)| a + b);
            } else {
                objects.push(SharedObject {
                    object: mapping.object,
                    name: mapping.name.clone(),
                    bytes,
                    is_writable: mapping.is_writable,
                    touched_bytes: mapping.referenced_bytes,
                });
            }
        }
        objects
    }

    /// What a range of addresses is part of.
    pub fn place(&self, address: u64, length: u64) -> Place {
        let Some(first) = self.mapping_of(address) else { return Place::Unmapped };
        let last_address = address.saturating_add(length.max(1) - 1);
        let Some(last) = self.mapping_of(last_address) else { return Place::Unmapped };
        match (first.is_shared, last.is_shared) {
            (false, false) => Place::Private,
            (true, true) if first.object == last.object => {
                Place::Shared(first.object, first.offset + (address - first.start))
            }
            _ => Place::Unmapped,
        }
    }

    fn mapping_of(&self, address: u64) -> Option<&Mapping> {
        let after = self.0.partition_point(|mapping| mapping.start <= address);
        self.0[..after].last().filter(|mapping| address < mapping.end)
    }
}

/// `start-end perms offset major:minor inode  name`, all but the inode in hexadecimal.
fn parse_mapping(line: &str) -> Option<Mapping> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut rest = line;
    let mut field = || {
        let (head, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = tail.trim_start();
        head
    };
    let (start, end) = field().split_once('-')?;
    let (start, end) = (hex(start)?, hex(end)?);
    let permissions = field();
    let offset = hex(field())?;
    let (major, minor) = field().split_once(':')?;
    let device = (hex(major)? << 32) | hex(minor)?;
    let inode = field().parse().ok()?;
    Some(Mapping {
        start,
        end,
        is_shared: permissions.ends_with('s'),
        is_writable: permissions.contains('w'),
        offset,
        object: Object { device, inode },
        name: rest.to_owned(),
        referenced_bytes: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
55d0c0000000-55d0c0021000 rw-p 00000000 00:00 0                          [heap]
Size:                132 kB
Referenced:           40 kB
7f0000000000-7f0000002000 rw-s 00001000 00:1a 77                         /dev/shm/with a space (deleted)
Referenced:            4 kB
VmFlags: rd wr sh mr mw me ms sd
7f0000002000-7f0000003000 r--s 00003000 00:1a 77                         /dev/shm/with a space (deleted)
Referenced:            4 kB
7f0000008000-7f0000009000 r--s 00000000 00:1a 78                         /dev/shm/other
Referenced:            0 kB
";
    const FIRST: Object = Object { device: 0x1a, inode: 77 };

    #[test]
    fn mappings_of_one_object_are_added() {
        let objects = Maps::parse(SMAPS).shared_objects();
        assert_eq!(objects.len(), 2);
        assert_eq!(objects[0].object, FIRST);
        assert_eq!(objects[0].name, "/dev/shm/with a space (deleted)");
        assert_eq!(objects[0].bytes, 0x3000);
        assert!(objects[0].is_writable && !objects[1].is_writable);
        assert_eq!(objects[0].touched_bytes, Some(8192));
        assert_eq!(objects[1].touched_bytes, Some(0));
    }

    #[test]
    fn addresses_resolve_to_offsets_in_their_object() {
        let maps = Maps::parse(SMAPS);
        assert_eq!(maps.place(0x7f00_0000_0010, 16), Place::Shared(FIRST, 0x1010));
        assert_eq!(maps.place(0x7f00_0000_1000, 0x2000), Place::Shared(FIRST, 0x2000), "across two mappings");
        assert_eq!(maps.place(0x7f00_0000_2fff, 2), Place::Unmapped, "runs out of its mapping");
        assert_eq!(maps.place(0x7f00_0000_8000, 0x1000), Place::Shared(Object { device: 0x1a, inode: 78 }, 0));
        assert_eq!(maps.place(0x55d0_c000_0000, 0), Place::Private);
        assert_eq!(maps.place(0x1000, 1), Place::Unmapped);
        assert_eq!(Maps::default().place(0x1000, 1), Place::Unmapped);
    }

    #[test]
    fn without_smaps_what_was_touched_is_unknown() {
        let text: Vec<_> = SMAPS.lines().filter(|line| line.contains('-')).collect();
        assert_eq!(Maps::parse(&text.join("\n")).shared_objects()[0].touched_bytes, None);
    }
}
