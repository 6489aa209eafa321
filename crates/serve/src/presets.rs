//! Presets: named settings of a search. A request selects one by its field `model`.

use beamgen::Settings;
use beamgen::program::lay_over;
use serde::Deserialize;
use toml::Table;

use crate::Error;

/// The bundled presets: the text of `presets.toml` in this crate, to which
/// `configs/serve/presets.toml` links.
pub const BUILT_IN_PRESETS: &str = include_str!("../presets.toml");

/// The name of the preset that has the server's own settings.
pub(crate) const OWN: &str = "beamgen";

/// A preset, which a request selects by its field `model`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Preset {
    /// The value of `model` that selects the preset.
    pub name: String,
    /// A description of the preset, in one line.
    pub summary: String,
    /// The settings of a search with the preset: the server's own, with the preset's changes.
    pub settings: Settings,
    /// Whether the preset sets the seed. If so, a request without a seed gets the preset's seed.
    pub pins_seed: bool,
}

/// All presets of a server. The first is the server's own settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Presets(Vec<Preset>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    summary: String,
    #[serde(default)]
    search: Table,
    #[serde(default)]
    generator: Table,
}

impl Presets {
    /// Returns the bundled presets that are valid in combination with the server's own settings.
    ///
    /// # Errors
    /// Returns an error if the bundled file is invalid. A test reads the file, so no release fails
    /// here.
    pub fn built_in(own: &Settings) -> Result<Self, Error> {
        let mut presets = Self::read(BUILT_IN_PRESETS, "the presets of this build", own)?;
        presets
            .0
            .retain(|preset| preset.settings.validate().is_ok());
        Ok(presets)
    }

    /// Reads presets from a TOML text. `place` is the text's name in errors; settings that a preset
    /// lacks are taken from `own`.
    ///
    /// # Errors
    /// Returns an error that names the preset if the text is not TOML, has an unknown key, or has
    /// invalid settings.
    pub fn parse(text: &str, place: &str, own: &Settings) -> Result<Self, Error> {
        let presets = Self::read(text, place, own)?;
        for preset in presets.iter() {
            preset.settings.validate().map_err(|error| Error::Presets {
                place: format!("{place}: [{}]", preset.name),
                reason: error.to_string(),
            })?;
        }
        Ok(presets)
    }

    fn read(text: &str, place: &str, own: &Settings) -> Result<Self, Error> {
        // A message of the TOML parser may have several lines, but an error must be one line.
        let wrong = |place: String, reason: &str| Error::Presets {
            place,
            reason: reason.trim().replace('\n', " "),
        };
        let file: Table = text.parse().map_err(|error: toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start);
            let before = text.get(..start).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            wrong(format!("{place}: line {line}"), error.message())
        })?;
        let mut presets = vec![Preset {
            name: OWN.to_owned(),
            summary: "the server's own settings".to_owned(),
            settings: own.clone(),
            pins_seed: false,
        }];
        for (name, table) in file {
            let wrong = |reason: &str| wrong(format!("{place}: [{name}]"), reason);
            if name == OWN {
                return Err(wrong(
                    "this is the name of the server's own settings: use another name",
                ));
            }
            let written: Written = table
                .try_into()
                .map_err(|error: toml::de::Error| wrong(error.message()))?;
            let pins_seed = written.generator.contains_key("seed");
            // The settings are merged as tables: in a struct, a key that the preset lacks would get
            // its default instead of the server's value.
            let mut settings = Table::try_from(own).map_err(|error| wrong(&error.to_string()))?;
            let over = [("search", written.search), ("generator", written.generator)];
            let over = over.map(|(key, table)| (key.to_owned(), table.into()));
            lay_over(&mut settings, &Table::from_iter(over));
            let settings: Settings = settings
                .try_into()
                .map_err(|error: toml::de::Error| wrong(error.message()))?;
            presets.push(Preset {
                name,
                summary: written.summary,
                settings,
                pins_seed,
            });
        }
        Ok(Self(presets))
    }

    /// Removes the presets that need a scorer, for a server without one.
    #[must_use]
    pub fn without_scorer(mut self) -> Self {
        self.0
            .retain(|preset| preset.settings.search.needs_scorer().is_none());
        self
    }

    /// Returns all presets. The server's own settings come first.
    pub fn iter(&self) -> impl Iterator<Item = &Preset> {
        self.0.iter()
    }

    /// Returns the preset that a request selects by `name`; `None` for an unknown name.
    pub fn find(&self, name: &str) -> Option<&Preset> {
        self.iter().find(|preset| preset.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        Presets::parse(text, "presets.toml", &Settings::default())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn the_presets_of_every_build_can_be_run_and_narrow_ones_cost_less() {
        let presets = Presets::parse(BUILT_IN_PRESETS, "built in", &Settings::default()).unwrap();
        let names: Vec<&str> = presets.iter().map(|preset| preset.name.as_str()).collect();
        assert_eq!(names, ["beamgen", "careful", "fast", "single", "vote"]);
        let chains = |name| presets.find(name).unwrap().settings.search.chains();
        assert!(chains("single") < chains("fast") && chains("fast") < chains("careful"));
        assert!(presets.iter().all(|preset| !preset.summary.is_empty()));
    }

    #[test]
    fn a_preset_changes_what_it_says_and_nothing_else() {
        let mut own = Settings::default();
        own.search.m = 2;
        own.generator.seed = 7;
        let text = "[x]\nsummary = \"s\"\nsearch.n = 8\ngenerator.sampling.temperature = 0.5";
        let presets = Presets::parse(text, "p", &own).unwrap();
        assert_eq!(presets.find("beamgen").unwrap().settings, own);
        let x = &presets.find("x").unwrap().settings;
        assert_eq!((x.search.n, x.search.m, x.generator.seed), (8, 2, 7));
        assert_eq!(x.generator.sampling.temperature, Some(0.5));
    }

    #[test]
    fn a_mistake_is_named_with_its_preset() {
        for (text, words) in [
            ("\n[x", "presets.toml: line 2: "),
            ("[x]", "presets.toml: [x]: missing field `summary`"),
            ("[x]\nsummary = 's'\nserch.n = 2", "`serch`"),
            ("[x]\nsummary = 's'\nsearch.width = 2", "`width`"),
            ("[x]\nsummary = 's'\nsearch.n = 0", "n must be at least 1"),
            ("[beamgen]\nsummary = 's'", "the server's own"),
        ] {
            let line = refusal(text);
            assert!(line.contains(words) && !line.contains('\n'), "{line}");
        }
    }
}
