//! Memory mappings of this process.

use super::evidence::{AddressPlace, SharedObject};
use super::sys::Object;
use procfs::FromRead;
use procfs::process::{MMPermissions, MMapPath, MemoryMap, MemoryMaps};

/// Mappings, ordered by address.
#[derive(Debug, Default)]
pub(super) struct Maps(Vec<MemoryMap>);

impl Maps {
    pub fn parse(text: &str) -> Self {
        Self(MemoryMaps::from_read(text.as_bytes()).map(|maps| maps.0).unwrap_or_default())
    }

    /// Objects mapped as shared, each once.
    pub fn shared_objects(&self) -> Vec<SharedObject> {
        let mut objects: Vec<SharedObject> = Vec::new();
        for mapping in self.0.iter().filter(|mapping| is_shared(mapping)) {
            let bytes = mapping.address.1.saturating_sub(mapping.address.0);
            let is_writable = mapping.perms.contains(MMPermissions::WRITE);
            let touched_bytes = mapping.extension.map.get("Referenced").copied();
            if let Some(known) = objects.iter_mut().find(|known| known.object == object(mapping)) {
                known.bytes = known.bytes.saturating_add(bytes);
                known.is_writable |= is_writable;
                known.touched_bytes = known.touched_bytes.zip(touched_bytes).map(|(a, b)| a.saturating_add(b));
            } else {
                let name = name(&mapping.pathname);
                objects.push(SharedObject { object: object(mapping), name, bytes, is_writable, touched_bytes });
            }
        }
        objects
    }

    pub fn place(&self, address: u64, length: u64) -> AddressPlace {
        let Some(first) = self.mapping_of(address) else { return AddressPlace::Unmapped };
        let last_address = address.saturating_add(length.max(1) - 1);
        let Some(last) = self.mapping_of(last_address) else { return AddressPlace::Unmapped };
        match (is_shared(first), is_shared(last)) {
            (false, false) => AddressPlace::Private,
            (true, true) if object(first) == object(last) => {
                AddressPlace::Shared(object(first), first.offset + (address - first.address.0))
            }
            _ => AddressPlace::Unmapped,
        }
    }

    fn mapping_of(&self, address: u64) -> Option<&MemoryMap> {
        let after = self.0.partition_point(|mapping| mapping.address.0 <= address);
        self.0[..after].last().filter(|mapping| address < mapping.address.1)
    }
}

fn is_shared(mapping: &MemoryMap) -> bool {
    mapping.perms.contains(MMPermissions::SHARED)
}

fn object(mapping: &MemoryMap) -> Object {
    let (major, minor) = mapping.dev;
    Object { device: ((major as u64) << 32) | minor as u64, inode: mapping.inode }
}

/// Name of a shared object as the kernel writes it.
fn name(path: &MMapPath) -> String {
    match path {
        MMapPath::Path(path) => path.display().to_string(),
        MMapPath::Vsys(key) => format!("/SYSV{key:08x} (deleted)"),
        MMapPath::Other(name) => format!("[{name}]"),
        _ => String::new(),
    }
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
        assert_eq!(maps.place(0x7f00_0000_0010, 16), AddressPlace::Shared(FIRST, 0x1010));
        assert_eq!(maps.place(0x7f00_0000_1000, 0x2000), AddressPlace::Shared(FIRST, 0x2000), "across two mappings");
        assert_eq!(maps.place(0x7f00_0000_2fff, 2), AddressPlace::Unmapped, "runs out of its mapping");
        assert_eq!(maps.place(0x7f00_0000_8000, 0x1000), AddressPlace::Shared(Object { device: 0x1a, inode: 78 }, 0));
        assert_eq!(maps.place(0x55d0_c000_0000, 0), AddressPlace::Private);
        assert_eq!(maps.place(0x1000, 1), AddressPlace::Unmapped);
        assert_eq!(Maps::default().place(0x1000, 1), AddressPlace::Unmapped);
    }

    #[test]
    fn without_smaps_what_was_touched_is_unknown() {
        let text: Vec<_> = SMAPS.lines().filter(|line| line.contains('-')).collect();
        assert_eq!(Maps::parse(&text.join("\n")).shared_objects()[0].touched_bytes, None);
    }
}
