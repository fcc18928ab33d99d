//! Adds names to the frames of blobs that were written without them.
//!
//! A frame without a function has a label for its offset in the file, created by [`super::label`]. It gets a new function, which is
//! inserted before it:
//!
//! ```text
//!   function 7 "x.so+0x220"   frame 9: function 7, at 0x220 of x.so
//!   function 7 "x.so+0x220"   function 2^32 "waits"   frame 9: function 2^32, at 0x220 of x.so
//! ```

use fxtrec_units::protobuf::{Field, FieldValue, Message, fields};
use rustc_hash::FxHashMap;

use super::{Blobs, PACKET_BYTES, find, interned, label, number_of, numbered, packet, start_of};

/// New functions get unused numbers: the writer counts from 1.
const FIRST: u64 = 1 << 32;

/// The maximum number of functions without a name, and the most files, that are known in a sequence of packets. Further frames are
/// unchanged.
const MOST: usize = 256 * 1024;

/// The location of a frame.
#[derive(Clone, Copy, Debug)]
pub struct FrameLocation<'a> {
    pub path: &'a str,
    pub build_id: &'a [u8],
    pub in_kernel: bool,
    /// The address in the file, as in its symbols.
    pub within: u64,
}

/// A part of a file in memory, by the numbers of its path and its build id.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    path: u64,
    build_id: u64,
    start: u64,
}

/// The definitions in the packets of a sequence.
#[derive(Debug, Default)]
struct Sequence {
    /// Functions whose name may be a label for an offset in a file.
    functions: FxHashMap<u64, String>,
    paths: FxHashMap<u64, String>,
    build_ids: FxHashMap<u64, Vec<u8>>,
    mappings: FxHashMap<u64, Mapping>,
    /// The new functions, by name.
    renamed: FxHashMap<String, u64>,
}

/// Adds names to frames, blob by blob of a trace.
#[derive(Debug, Default)]
pub struct Renamer {
    sequences: FxHashMap<u64, Sequence>,
}

impl Renamer {
    /// The blob with names, as one or more blobs; `name` finds the name of the function at an offset. `None` if nothing changed, or the
    /// blob is damaged.
    pub fn rename(
        &mut self,
        payload: &[u8],
        mut name: impl FnMut(FrameLocation<'_>) -> Option<String>,
    ) -> Option<Vec<Vec<u8>>> {
        let mut blobs = Blobs::default();
        let mut has_changed = false;
        for field in fields(payload)? {
            let (1, FieldValue::Bytes(packet)) = (field.number, field.value) else { return None };
            has_changed |= self.packet(packet, &mut blobs, &mut name)?;
        }
        has_changed.then(|| blobs.finish().into_iter().map(|(blob, _)| blob).collect())
    }

    /// Whether the packet has changed.
    fn packet(
        &mut self,
        packet: &[u8],
        blobs: &mut Blobs,
        name: &mut impl FnMut(FrameLocation<'_>) -> Option<String>,
    ) -> Option<bool> {
        let of_packet = fields(packet)?;
        let id = number_of(&of_packet, packet::SEQUENCE).unwrap_or(0);
        if number_of(&of_packet, packet::FLAGS).unwrap_or(0) & packet::CLEARED != 0 {
            self.sequences.remove(&id);
        }
        let is_sample = find(&of_packet, packet::STACK_SAMPLE).is_some();
        let data = match find(&of_packet, packet::INTERNED) {
            Some(FieldValue::Bytes(data)) if !is_sample => fields(data)?,
            _ => {
                blobs.put(&Message(packet.to_vec()));
                return Some(false);
            }
        };
        let put = |data: &mut Message, blobs: &mut Blobs| {
            let mut packet = Message::default();
            for field in of_packet.iter().filter(|field| field.number != packet::INTERNED) {
                packet.field(field);
            }
            packet.bytes(packet::INTERNED, &std::mem::take(data).0);
            blobs.put(&packet);
        };
        let sequence = self.sequences.entry(id).or_default();
        let (mut new, mut has_changed) = (Message::default(), false);
        for item in &data {
            let FieldValue::Bytes(bytes) = item.value else { return None };
            let of_item = fields(bytes)?;
            let named = match item.number {
                interned::FRAMES => sequence.frame(&of_item, name),
                _ => {
                    sequence.learn(item.number, &of_item);
                    None
                }
            };
            if new.0.len() + bytes.len() > PACKET_BYTES && !new.0.is_empty() {
                put(&mut new, blobs);
            }
            let Some((function, name)) = named else {
                new.field(item);
                continue;
            };
            has_changed = true;
            if let Some(name) = name {
                new.bytes(interned::FUNCTIONS, &numbered(function, 2, name.as_bytes()).0);
            }
            let mut frame = Message::default();
            for field in &of_item {
                match field.number {
                    2 => frame.number(2, function),
                    _ => frame.field(field),
                }
            }
            new.bytes(interned::FRAMES, &frame.0);
        }
        put(&mut new, blobs);
        Some(has_changed)
    }
}

impl Sequence {
    fn learn(&mut self, kind: u64, of_item: &[Field<'_>]) {
        let Some(number) = number_of(of_item, 1) else { return };
        let bytes = match find(of_item, 2) {
            Some(FieldValue::Bytes(bytes)) => bytes,
            _ => &[],
        };
        let text = || String::from_utf8_lossy(bytes).into_owned();
        match kind {
            interned::FUNCTIONS if self.functions.len() < MOST && is_a_place(bytes) => {
                self.functions.insert(number, text());
            }
            interned::PATHS if self.paths.len() < MOST => drop(self.paths.insert(number, text())),
            interned::BUILD_IDS if self.build_ids.len() < MOST => {
                self.build_ids.insert(number, bytes.to_vec());
            }
            interned::MAPPINGS if self.mappings.len() < MOST => {
                let number_of = |field| number_of(of_item, field).unwrap_or(0);
                let (path, build_id, start) = (number_of(7), number_of(2), number_of(4));
                self.mappings.insert(number, Mapping { path, build_id, start });
            }
            _ => {}
        }
    }

    /// The number of a frame's new function, if there is one, with its name if it is new.
    fn frame(
        &mut self,
        of_item: &[Field<'_>],
        name: &mut impl FnMut(FrameLocation<'_>) -> Option<String>,
    ) -> Option<(u64, Option<String>)> {
        let function = self.functions.get(&number_of(of_item, 2)?)?;
        let mapping = self.mappings.get(&number_of(of_item, 3)?)?;
        let within = number_of(of_item, 4).unwrap_or(0);
        let path = self.paths.get(&mapping.path)?;
        if *function != label(path, within) {
            return None;
        }
        let build_id = self.build_ids.get(&mapping.build_id).map_or(&[][..], Vec::as_slice);
        let in_kernel = super::super::write::is_kernel(mapping.start);
        let name = name(FrameLocation { path, build_id, in_kernel, within })?;
        let name = start_of(&name);
        if let Some(&known) = self.renamed.get(name) {
            return Some((known, None));
        }
        let number = FIRST + self.renamed.len() as u64;
        if self.renamed.len() < MOST {
            self.renamed.insert(name.to_owned(), number);
            return Some((number, Some(name.to_owned())));
        }
        None
    }
}

/// Whether a name ends like the label for an offset in a file.
fn is_a_place(name: &[u8]) -> bool {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_hexdigit()).count();
    digits > 0 && name[..name.len() - digits].ends_with(b"+0x")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{known, read, sample};
    use super::super::{Kind, Known, Samples};
    use super::*;

    fn nameless(program: usize, address: u64) -> Known<'static> {
        Known { function: None, ..known(program, address) }
    }

    fn two() -> Vec<Vec<u8>> {
        let mut samples = Samples::default();
        samples.add(sample(Kind::OffCpu, 1000, 7), 1, &[0x7010, 0x7020, 0x9000]);
        samples.add(sample(Kind::OffCpu, 2000, 8), 1, &[0x7010, 0x7030]);
        samples.blobs(nameless)
    }

    fn names(blobs: &[Vec<u8>]) -> Vec<Vec<String>> {
        read(blobs).into_iter().map(|(_, _, _, names)| names).collect()
    }

    #[test]
    fn frames_get_the_names_that_are_known_by_then_and_the_rest_keeps_its_place() {
        let blobs = two();
        let before = [vec!["x.so+0x210", "x.so+0x220", "0x9000"], vec!["x.so+0x210", "x.so+0x230"]];
        assert_eq!(names(&blobs), before);
        let mut renamer = Renamer::default();
        let mut asked = Vec::new();
        let renamed: Vec<Vec<u8>> = blobs
            .iter()
            .flat_map(|blob| {
                let name = |place: FrameLocation<'_>| {
                    assert_eq!((place.path, place.build_id), ("/lib/x.so", &[1, 2][..]));
                    assert!(!place.in_kernel);
                    asked.push(place.within);
                    (place.within < 0x230).then(|| "waits".to_owned())
                };
                renamer.rename(blob, name).expect("there are new names")
            })
            .collect();
        asked.sort_unstable();
        assert_eq!(asked, [0x210, 0x220, 0x230]);
        let after = [vec!["waits", "waits", "0x9000"], vec!["waits", "x.so+0x230"]];
        assert_eq!(names(&renamed), after);
        let times: Vec<u64> = read(&renamed).iter().map(|sample| sample.0).collect();
        assert_eq!(times, [1000, 2000]);
    }

    #[test]
    fn what_has_no_new_names_or_is_damaged_stays() {
        let blobs = two();
        for blob in &blobs {
            assert_eq!(Renamer::default().rename(blob, |_| None), None);
        }
        for length in 1..blobs[0].len() {
            let name = |_: FrameLocation<'_>| Some("waits".to_owned());
            if let Some(renamed) = Renamer::default().rename(&blobs[0][..length], name) {
                assert!(renamed.iter().all(|blob| fields(blob).is_some()));
            }
        }
    }

    #[test]
    fn many_long_names_are_put_into_several_blobs() {
        let mut samples = Samples::default();
        for at in 0..2000 {
            samples.add(sample(Kind::OffCpu, 1000 + at, 1), 1, &[0x7010, 0x7020 + at % 900]);
        }
        let blobs = samples.blobs(nameless);
        let mut renamer = Renamer::default();
        let long =
            |place: FrameLocation<'_>| Some(format!("{:x}{}", place.within, "n".repeat(3000)));
        let renamed: Vec<Vec<u8>> = blobs
            .iter()
            .flat_map(|blob| renamer.rename(blob, long).unwrap_or_else(|| vec![blob.clone()]))
            .collect();
        assert!(
            renamed.len() > 100 && renamed.iter().all(|it| it.len() <= super::super::BLOB_BYTES)
        );
        let names = names(&renamed);
        assert_eq!(names.len(), 2000);
        for (at, names) in names.iter().enumerate() {
            assert!(names[1].starts_with(&format!("{:x}n", 0x220 + at % 900)), "{at}");
            assert_eq!(names[1].len(), super::super::NAME_BYTES);
        }
    }
}
