// SPDX-License-Identifier: GPL-2.0-only

//! The attributes of one message, kept as bytes until they are read as values of a type.

use crate::error::{Error, Result};
use ddabi::genl::Attribute;
use netlink_packet_core::{Emitable, Nla, NlasIterator};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// One attribute, with the bytes of its value as in the message.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Raw {
    kind: u16,
    value: Vec<u8>,
}

impl Nla for Raw {
    fn value_len(&self) -> usize {
        self.value.len()
    }

    fn kind(&self) -> u16 {
        self.kind
    }

    fn emit_value(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.value);
    }
}

/// The attributes of one message, in order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Attributes(Vec<Raw>);

impl Attributes {
    /// Returns a list without attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses the attributes of a message. Unknown attributes are kept but have no effect.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        NlasIterator::new(bytes)
            .map(|attribute| {
                let attribute = attribute.map_err(|error| Error::malformed(error.to_string()))?;
                Ok(Raw {
                    kind: attribute.kind(),
                    value: attribute.value().to_vec(),
                })
            })
            .collect::<Result<_>>()
            .map(Self)
    }

    /// Adds a u32.
    #[must_use]
    pub fn u32(self, attribute: Attribute, value: u32) -> Self {
        self.raw(attribute as u16, value.to_ne_bytes().to_vec())
    }

    /// Adds a u64.
    #[must_use]
    pub fn u64(self, attribute: Attribute, value: u64) -> Self {
        self.raw(attribute as u16, value.to_ne_bytes().to_vec())
    }

    /// Adds a string with the terminating zero that the kernel's policies require.
    #[must_use]
    pub fn string(self, attribute: Attribute, value: &str) -> Self {
        self.raw_string(attribute as u16, value)
    }

    /// Adds a structure.
    #[must_use]
    pub fn binary(self, attribute: Attribute, value: &(impl IntoBytes + Immutable)) -> Self {
        self.raw(attribute as u16, value.as_bytes().to_vec())
    }

    /// Adds a string as the attribute with this number, for the families of other modules.
    #[must_use]
    pub fn raw_string(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.raw(kind, bytes)
    }

    /// Adds bytes as the attribute with this number.
    #[must_use]
    pub fn raw(mut self, kind: u16, value: Vec<u8>) -> Self {
        self.0.push(Raw { kind, value });
        self
    }

    /// Returns the bytes of the first attribute with this number.
    pub fn find(&self, kind: u16) -> Option<&[u8]> {
        self.0
            .iter()
            .find(|raw| raw.kind == kind)
            .map(|raw| raw.value.as_slice())
    }

    /// Returns the bytes of every attribute, which are the elements of a nested list.
    pub fn values(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|raw| raw.value.as_slice())
    }

    /// Returns a u32 that may be absent.
    pub fn maybe_u32(&self, attribute: Attribute) -> Result<Option<u32>> {
        self.fixed(attribute)
            .map(|bytes| bytes.map(u32::from_ne_bytes))
    }

    /// Returns a u64 that may be absent.
    pub fn maybe_u64(&self, attribute: Attribute) -> Result<Option<u64>> {
        self.fixed(attribute)
            .map(|bytes| bytes.map(u64::from_ne_bytes))
    }

    /// Returns a string that may be absent. Invalid UTF-8 is replaced.
    pub fn maybe_string(&self, attribute: Attribute) -> Option<String> {
        self.find(attribute as u16).map(text)
    }

    /// Returns a u32, which must be present.
    pub fn need_u32(&self, attribute: Attribute) -> Result<u32> {
        self.maybe_u32(attribute)?.ok_or(Error::missing(attribute))
    }

    /// Returns a u64, which must be present.
    pub fn need_u64(&self, attribute: Attribute) -> Result<u64> {
        self.maybe_u64(attribute)?.ok_or(Error::missing(attribute))
    }

    /// Returns a structure that may be absent. Fails if its size differs from `T`, because the
    /// module then has another version.
    pub fn maybe_binary<T: FromBytes>(&self, attribute: Attribute) -> Result<Option<T>> {
        let Some(bytes) = self.find(attribute as u16) else {
            return Ok(None);
        };
        T::read_from_bytes(bytes)
            .map(Some)
            .map_err(|_| Error::Layout {
                attribute,
                theirs: bytes.len(),
                ours: size_of::<T>(),
            })
    }

    /// Returns an array of structures that may be absent.
    pub fn maybe_list<T: FromBytes>(&self, attribute: Attribute) -> Result<Option<Vec<T>>> {
        let Some(bytes) = self.find(attribute as u16) else {
            return Ok(None);
        };
        let read = |item| {
            T::read_from_bytes(item).map_err(|_| Error::Layout {
                attribute,
                theirs: bytes.len(),
                ours: size_of::<T>(),
            })
        };
        let items = bytes.chunks(size_of::<T>()).map(read);
        items.collect::<Result<_>>().map(Some)
    }

    /// Returns a structure, which must be present.
    pub fn need_binary<T: FromBytes>(&self, attribute: Attribute) -> Result<T> {
        self.maybe_binary(attribute)?
            .ok_or(Error::missing(attribute))
    }

    fn fixed<const N: usize>(&self, attribute: Attribute) -> Result<Option<[u8; N]>> {
        let Some(bytes) = self.find(attribute as u16) else {
            return Ok(None);
        };
        bytes.try_into().map(Some).map_err(|_| Error::Layout {
            attribute,
            theirs: bytes.len(),
            ours: N,
        })
    }
}

/// Returns the text of a string attribute, up to its terminating zero.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

impl Emitable for Attributes {
    fn buffer_len(&self) -> usize {
        self.0.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.0.as_slice().emit(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ddabi::pool::PoolStats;

    fn round_trip(attributes: &Attributes) -> Attributes {
        let mut bytes = vec![0; attributes.buffer_len()];
        attributes.emit(&mut bytes);
        Attributes::parse(&bytes).unwrap()
    }

    #[test]
    fn every_type_survives_the_wire() {
        let stats = PoolStats {
            puts: 7,
            ..PoolStats::default()
        };
        let read = round_trip(
            &Attributes::new()
                .u32(Attribute::VmId, 3)
                .u64(Attribute::Used, 1 << 40)
                .string(Attribute::Name, "web")
                .binary(Attribute::Stats, &stats),
        );
        assert_eq!(read.need_u32(Attribute::VmId).unwrap(), 3);
        assert_eq!(read.need_u64(Attribute::Used).unwrap(), 1 << 40);
        assert_eq!(read.maybe_string(Attribute::Name).unwrap(), "web");
        assert_eq!(
            read.need_binary::<PoolStats>(Attribute::Stats).unwrap(),
            stats
        );
    }

    #[test]
    fn a_structure_of_another_size_is_another_version() {
        let attributes = Attributes::new().raw(Attribute::Stats as u16, vec![0; 12]);
        let error = attributes
            .need_binary::<PoolStats>(Attribute::Stats)
            .unwrap_err();
        assert!(matches!(error, Error::Layout { theirs: 12, .. }), "{error}");
    }

    #[test]
    fn lists_are_whole() {
        let list = |bytes: usize| {
            let attributes = Attributes::new().raw(Attribute::Curve as u16, vec![1; bytes]);
            attributes.maybe_list::<ddabi::counters::CurvePoint>(Attribute::Curve)
        };
        assert_eq!(list(0).unwrap().unwrap().len(), 0);
        assert_eq!(list(32).unwrap().unwrap().len(), 2);
        assert!(matches!(list(24), Err(Error::Layout { theirs: 24, .. })));
        let absent = Attributes::new().maybe_list::<u64>(Attribute::Curve);
        assert_eq!(absent.unwrap(), None);
    }

    #[test]
    fn a_number_of_another_size_is_another_version() {
        let attributes = Attributes::new().u64(Attribute::VmId, 1);
        let error = attributes.need_u32(Attribute::VmId).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Layout {
                    theirs: 8,
                    ours: 4,
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn missing_attributes_are_named() {
        let error = Attributes::new().need_u64(Attribute::Capacity).unwrap_err();
        assert!(error.to_string().contains("Capacity"), "{error}");
    }

    #[test]
    fn truncated_attributes_are_malformed() {
        for bytes in [&[8, 0, 1, 0, 0][..], &[1, 0, 0], &[2, 0, 1, 0]] {
            assert!(matches!(
                Attributes::parse(bytes),
                Err(Error::Malformed { .. })
            ));
        }
    }
}
