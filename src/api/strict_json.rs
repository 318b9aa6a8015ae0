//! JSON objects only where objects are meant, and nothing where something is said to be.
//!
//! The derived readers of structures also take an array of the fields in order, and `null` for a field that may be left
//! out; no document of ours, or of our clients, describes either. A body is therefore read a second time, from its tree,
//! by a reader that wants an object for every structure and a value for every field that is there.

use serde::Deserialize;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;

/// Reads a body. Reading it directly first keeps what a tree forgets: fields given twice, and where the fault lies.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    let value = serde_json::from_slice::<T>(bytes)?;
    T::deserialize(Strict(serde_json::from_slice(bytes)?))?;
    Ok(value)
}

/// For the rare field whose clients do write `null` when they mean nothing.
pub fn nullable<'de, D: Deserializer<'de>, T: DeserializeOwned>(reader: D) -> Result<Option<T>, D::Error> {
    match Value::deserialize(reader)? {
        Value::Null => Ok(None),
        value => T::deserialize(Strict(value)).map(Some).map_err(Error::custom),
    }
}

struct Strict(Value);

impl IntoDeserializer<'_, serde_json::Error> for Strict {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Strict {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0 {
            Value::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(Strict))),
            Value::Object(fields) => {
                let fields = fields.into_iter().map(|(name, value)| (name, Strict(value)));
                visitor.visit_map(MapDeserializer::new(fields))
            }
            plain => plain.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        match self.0 {
            Value::Array(_) => Err(Error::invalid_type(Unexpected::Seq, &"an object")),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        if self.0.is_null() { Err(Error::invalid_type(Unexpected::Unit, &"a value")) } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Outer {
        inner: Option<Inner>,
        list: Vec<Inner>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Inner {
        number: u8,
    }

    #[test]
    fn objects_are_read_and_arrays_or_nothing_in_their_place_are_not() {
        let good = br#"{"inner": {"number": 1}, "list": [{"number": 2}]}"#;
        let wanted = Outer { inner: Some(Inner { number: 1 }), list: vec![Inner { number: 2 }] };
        assert_eq!(read::<Outer>(good).expect("reads"), wanted);
        let bad =
            ["[null, []]", r#"{"inner": [1], "list": []}"#, r#"{"list": [[2]]}"#, r#"{"inner": null, "list": []}"#];
        for bad in bad {
            assert!(serde_json::from_str::<Outer>(bad).is_ok(), "the derived reader alone takes {bad}");
            assert!(read::<Outer>(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(read::<Outer>(br#"{"list": [], "list": []}"#).is_err(), "a field given twice");
    }
}
