//! The body of an answer, read field by field. Only the requested fields are kept, so an answer
//! takes no more memory than its bytes and these fields.

use std::fmt::{self, Display};
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess,
    Visitor,
};

use crate::error::one_line;

/// The tolerance for rounding errors: a log-probability may be a little above 0, and a probability
/// a little outside of 0 to 1.
const ROUNDING: f64 = 1e-3;
/// The lowest log-probability. llama.cpp sends the lowest float for a probability of 0; the sum of
/// two such values would be infinite.
const LOWEST: f32 = -1e5;

/// The JSON text of a server's answer. It is not parsed into a tree, which could be much larger.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reply<'a>(&'a [u8]);

impl<'a> Reply<'a> {
    /// Checks that a text is JSON and wraps it.
    ///
    /// # Errors
    /// The text is not JSON; the message shows its beginning.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Self, String> {
        match serde_json::from_slice::<IgnoredAny>(text) {
            Ok(_) => Ok(Self(text)),
            Err(error) => {
                let text = one_line(&String::from_utf8_lossy(text));
                Err(format!("{error}: {text:?}"))
            }
        }
    }

    /// Returns the value at a path of names and indices, such as `choices.0.text`; `None` if it is
    /// missing or null.
    ///
    /// # Errors
    /// The value has another type.
    pub(crate) fn at<T: DeserializeOwned>(self, path: &str) -> Result<Option<T>, String> {
        self.walk(path, PhantomData::<Option<T>>)
            .map(Option::flatten)
    }

    /// Returns the value at a path; `None` if it is missing, null or of another type.
    pub(crate) fn maybe<T: DeserializeOwned>(self, path: &str) -> Option<T> {
        self.at(path).ok().flatten()
    }

    /// Whether there is a value at a path that is not null.
    pub(crate) fn has(self, path: &str) -> bool {
        self.maybe::<IgnoredAny>(path).is_some()
    }

    /// Returns the list at a path, which may have at most `most` values.
    ///
    /// # Errors
    /// The list is missing or has more values, or a value has another type.
    pub(crate) fn list<T: DeserializeOwned>(
        self,
        path: &str,
        most: usize,
    ) -> Result<Vec<T>, String> {
        let list = self.maybe_list(path, most)?;
        list.ok_or_else(|| format!("without `{path}`"))
    }

    /// Returns the list at a path like [`list`](Self::list), but `None` if it is missing.
    pub(crate) fn maybe_list<T: DeserializeOwned>(
        self,
        path: &str,
        most: usize,
    ) -> Result<Option<Vec<T>>, String> {
        self.walk(path, Few::new(most)).map(Option::flatten)
    }

    /// Returns the list of log-probabilities at a path, which may have at most `most` values.
    ///
    /// # Errors
    /// The errors of [`list`](Self::list), and a value that is not a log-probability.
    pub(crate) fn logprobs(self, path: &str, most: usize) -> Result<Vec<f32>, String> {
        let values = self.list::<f64>(path, most)?;
        values
            .into_iter()
            .enumerate()
            .map(|(at, value)| logprob(format_args!("{path}.{at}"), value))
            .collect()
    }

    /// Returns the length of the list at a path; `None` without a list.
    pub(crate) fn length(self, path: &str) -> Option<usize> {
        // `IgnoredAny` has size 0, so the values take no memory.
        let values: Option<Vec<IgnoredAny>> = self.maybe(path);
        values.map(|values| values.len())
    }

    fn walk<S: DeserializeSeed<'a>>(self, path: &str, seed: S) -> Result<Option<S::Value>, String> {
        // Each field is read by another pass over the text: answers are small and fields few.
        let mut from = serde_json::Deserializer::from_slice(self.0);
        let found = Walk { path, seed }.deserialize(&mut from);
        found.map_err(|error| format!("`{path}`: {}", one_line(&error.to_string())))
    }
}

/// Checks a log-probability and clamps it to the range from [`LOWEST`] to 0, so that sums of many
/// are finite.
pub(crate) fn logprob(field: impl Display, value: f64) -> Result<f32, String> {
    check_logprob(field, value)?;
    Ok((value as f32).clamp(LOWEST, 0.0))
}

/// Refuses a value that is not a log-probability, with a tolerance for rounding.
pub(crate) fn check_logprob(field: impl Display, value: f64) -> Result<(), String> {
    if value <= ROUNDING && (value as f32).is_finite() {
        Ok(())
    } else {
        Err(format!(
            "`{field}` is {value:e}, which is not a log-probability"
        ))
    }
}

/// Refuses a value that is not a probability, and clamps rounding errors to the range from 0 to 1.
pub(crate) fn probability(field: impl Display, value: f64) -> Result<f64, String> {
    if (-ROUNDING..=1.0 + ROUNDING).contains(&value) {
        Ok(value.clamp(0.0, 1.0))
    } else {
        Err(format!(
            "`{field}` is {value:e}, which is not a probability"
        ))
    }
}

/// Returns the message in a refusal: from `OpenAI`'s error object, from vLLM's `error` for a wrong
/// key, from `detail`, or else the whole text.
pub(crate) fn said(text: &[u8]) -> String {
    let message = Reply::parse(text).ok().and_then(|reply| {
        let places = ["error.message", "error", "message", "detail"];
        places
            .into_iter()
            .find_map(|place| reply.maybe::<String>(place))
    });
    let message = message.unwrap_or_else(|| String::from_utf8_lossy(text).into_owned());
    one_line(&message)
}

/// Reads the value at a path with `seed` and skips all other values.
struct Walk<'p, S> {
    path: &'p str,
    seed: S,
}

impl<'p, S> Walk<'p, S> {
    /// Returns the first part of the path, and a `Walk` for the rest of the path.
    fn step(self) -> (&'p str, Self) {
        let (part, path) = self.path.split_once('.').unwrap_or((self.path, ""));
        let seed = self.seed;
        (part, Self { path, seed })
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Walk<'_, S> {
    type Value = Option<S::Value>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        match self.path {
            "" => self.seed.deserialize(from).map(Some),
            _ => from.deserialize_any(self),
        }
    }
}

impl<'de, S: DeserializeSeed<'de>> Visitor<'de> for Walk<'_, S> {
    type Value = Option<S::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (name, below) = self.step();
        let (mut below, mut found) = (Some(below), None);
        while let Some(is_it) = map.next_key_seed(Is(name))? {
            // Of equal keys the first counts. The map must be read to its end.
            match below.take_if(|_| is_it) {
                Some(below) => found = map.next_value_seed(below)?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let (position, below) = self.step();
        let Ok(position) = position.parse::<usize>() else {
            // The parser requires that a list is read to its end, even if nothing in it is needed.
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(None);
        };
        for _ in 0..position {
            if seq.next_element::<IgnoredAny>()?.is_none() {
                return Ok(None);
            }
        }
        let found = seq.next_element_seed(below)?.flatten();
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Tells whether a key is the wanted one, without allocating it.
struct Is<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

/// Reads a list of at most `most` values; null is read as `None`.
pub(crate) struct Few<T> {
    most: usize,
    of: PhantomData<T>,
}

impl<T> Few<T> {
    pub(crate) fn new(most: usize) -> Self {
        let of = PhantomData;
        Self { most, of }
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Few<T> {
    type Value = Option<Vec<T>>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Few<T> {
    type Value = Option<Vec<T>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(value) = seq.next_element()? {
            if all.len() == self.most {
                let most = self.most;
                return Err(A::Error::custom(format_args!(
                    "more than {most} values, where {most} were asked for"
                )));
            }
            all.push(value);
        }
        Ok(Some(all))
    }
}

/// The first two values of a list; further values are skipped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pair<A, B>(pub A, pub Option<B>);

impl<'de, A: Deserialize<'de>, B: Deserialize<'de>> Deserialize<'de> for Pair<A, B> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct First<A, B>(PhantomData<(A, B)>);
        impl<'de, A: Deserialize<'de>, B: Deserialize<'de>> Visitor<'de> for First<A, B> {
            type Value = Pair<A, B>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list that begins with a number")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Self::Value, S::Error> {
                let first = seq.next_element()?;
                let first = first.ok_or_else(|| S::Error::invalid_length(0, &self))?;
                let second = seq.next_element()?;
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Pair(first, second))
            }
        }
        from.deserialize_seq(First(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] =
        br#" {"a": [{"b": 1, "b": 2}, [3, 4.5, "x"], null], "c\u0064": "e", "f": true, "n": null} "#;

    #[test]
    fn fields_are_found_by_their_path() {
        let reply = Reply::parse(TEXT).unwrap();
        assert_eq!(reply.at::<u32>("a.0.b"), Ok(Some(1)));
        assert_eq!(reply.at::<f64>("a.1.1"), Ok(Some(4.5)));
        assert_eq!(reply.at::<String>("cd"), Ok(Some("e".to_owned())));
        for nowhere in [
            "a.0.c", "a.1.3", "a.2", "a.2.x", "a.b", "f.x", "cd.0", "n", "n.0", "z",
        ] {
            assert_eq!(reply.at::<u32>(nowhere), Ok(None), "{nowhere}");
        }
        assert_eq!((reply.length("a"), reply.length("f")), (Some(3), None));
        assert_eq!(reply.maybe::<u32>("cd"), None);
        let error = reply.at::<u32>("cd").unwrap_err();
        assert!(error.starts_with("`cd`: invalid type"), "{error}");
    }

    #[test]
    fn a_list_has_as_many_values_as_were_asked_for() {
        let reply =
            Reply::parse(br#"{"a": [1, 2, 3], "b": null, "c": [1, -1], "d": [[1, 2, "x"], [3]]}"#);
        let reply = reply.unwrap();
        assert_eq!(reply.list::<u32>("a", 3), Ok(vec![1, 2, 3]));
        let error = reply.list::<u32>("a", 2).unwrap_err();
        assert!(error.starts_with("`a`: more than 2 values"), "{error}");
        assert_eq!(reply.maybe_list::<u32>("b", 2), Ok(None));
        assert_eq!(reply.list::<u32>("b", 2), Err("without `b`".into()));
        assert!(reply.list::<u32>("c", 2).unwrap_err().starts_with("`c`: "));
        let pairs = reply.list::<Pair<f64, u32>>("d", 2);
        assert_eq!(pairs, Ok(vec![Pair(1.0, Some(2)), Pair(3.0, None)]));
    }

    #[test]
    fn what_is_not_json_is_said_with_its_beginning() {
        for text in [
            &b"<html>"[..],
            b"{\"a\": 1} x",
            b"[1, 2",
            b"{\"a\": 1e999}",
            b"\xFF",
        ] {
            let error = Reply::parse(text)
                .and_then(|reply| reply.at::<f64>("a"))
                .unwrap_err();
            assert!(error.len() < 200, "{error}");
        }
        let long = Reply::parse("x".repeat(1 << 20).as_bytes()).unwrap_err();
        assert!(long.len() < 1000, "{long}");
    }

    #[test]
    fn numbers_are_held_to_what_they_are() {
        let reply = Reply::parse(
            br#"{"good": [-0.5, 0, 0.0005, -3.4e38], "bad": [-0.5, 5], "low": [-1e308]}"#,
        );
        let reply = reply.unwrap();
        assert_eq!(reply.logprobs("good", 4), Ok(vec![-0.5, 0.0, 0.0, LOWEST]));
        assert_eq!(
            reply.logprobs("bad", 2),
            Err("`bad.1` is 5e0, which is not a log-probability".into())
        );
        assert_eq!(
            reply.logprobs("low", 2),
            Err("`low.0` is -1e308, which is not a log-probability".into())
        );
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.01] {
            assert!(logprob("x", value).is_err(), "{value}");
        }
        assert_eq!(probability("x", 1.0005), Ok(1.0));
        assert_eq!(probability("x", 0.25), Ok(0.25));
        for value in [f64::NAN, 1.1, -0.1, f64::INFINITY] {
            assert!(probability("x", value).is_err(), "{value}");
        }
    }

    #[test]
    fn what_servers_say_is_one_line() {
        for (text, expected) in [
            (
                r#"{"error":{"message":"no\nsuch model","code":404}}"#,
                "no such model",
            ),
            (r#"{"error":"Unauthorized"}"#, "Unauthorized"),
            (r#"{"object":"error","message":"too long"}"#, "too long"),
            (r#"{"detail":"Not Found"}"#, "Not Found"),
            ("<html>\n502\n</html>", "<html> 502 </html>"),
            ("", ""),
        ] {
            assert_eq!(said(text.as_bytes()), expected);
        }
        assert!(said("é".repeat(10_000).as_bytes()).chars().count() <= 301);
    }
}
