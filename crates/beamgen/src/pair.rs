//! Pairs of published models by name, each a TOML file in `configs/pairs/`.

use std::path::{Path, PathBuf};

use serde::Serialize;
use toml::{Table, Value};

use crate::config::lay_over;
use crate::config::{SettingsFile, parse, read};
use crate::pair_header::{Fits, PairMemory};
use crate::{Config, Error};

/// Name and text of every file in `configs/pairs/`, by name.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/pairs.rs"));

/// A generator and a reward model that are used together, with the settings that suit them.
///
/// A pair is a settings file with one table more, `[pair]`: its name, what it is for, and what it
/// needs. The settings are those that the models' authors or published searches use; what the file
/// leaves out has its default.
///
/// ```
/// let pair = beamgen::Pair::find("qwen2.5-math-1.5b")?;
/// assert_eq!(pair.prm.to_str(), Some("Qwen/Qwen2.5-Math-PRM-7B"));
/// # Ok::<(), beamgen::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Pair {
    /// Its name, which is also the file's without `.toml` for those of [`Pair::all`].
    pub name: String,
    /// What it is good for, in one line.
    pub summary: String,
    /// The generator: `ORG/NAME` of a hub, or a path.
    pub generator: PathBuf,
    /// The reward model, likewise.
    pub prm: PathBuf,
    /// The smallest machine that it runs on, if the file says.
    pub fits: Option<Fits>,
    /// What it needs in memory, if the file says.
    pub memory: Option<PairMemory>,
    /// Bytes to download before the first run, if the file says.
    pub download: Option<u64>,
    #[serde(skip)]
    settings: Table,
}

impl Pair {
    /// The pairs that every build knows, by name.
    pub fn all() -> impl Iterator<Item = Self> {
        // Held to be `Ok` for every file by a test.
        let read = |(name, text): &(&str, &str)| Self::parse(text, Path::new(name)).ok();
        BUILT_IN.iter().filter_map(read)
    }

    /// A pair by its name, or else from a file, whose path ends in `.toml`.
    ///
    /// # Errors
    /// [`Error::UnknownPair`] with the nearest name, or what is wrong with the file.
    pub fn find(name_or_path: &str) -> Result<Self, Error> {
        let path = Path::new(name_or_path);
        if let Some((_, text)) = BUILT_IN.iter().find(|(name, _)| *name == name_or_path) {
            return Self::parse(text, path);
        }
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            return Self::load(path);
        }
        Err(Error::UnknownPair {
            name: name_or_path.to_owned(),
            nearest: nearest(name_or_path),
        })
    }

    /// A pair from a file.
    ///
    /// # Errors
    /// The file cannot be read, is no TOML, has an unknown key or a value of another type, lacks
    /// the table `[pair]`, or does not name both models: with file and line.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::parse(&read(path)?, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let file: SettingsFile = parse(text, path)?;
        let lacking = |what: &str| Error::ConfigFile {
            path: path.to_owned(),
            line: 1,
            reason: format!("a pair needs {what}"),
        };
        let header = file.pair.ok_or_else(|| lacking("a table [pair]"))?;
        let models = file.models;
        let mut settings: Table = parse(text, path)?;
        settings.remove("pair");
        Ok(Self {
            name: header.name,
            summary: header.summary,
            generator: models
                .generator
                .ok_or_else(|| lacking("models.generator"))?,
            prm: models.prm.ok_or_else(|| lacking("models.prm"))?,
            fits: header.fits,
            memory: header.memory,
            download: header.download,
            settings,
        })
    }

    /// The pair's settings, with defaults for what it leaves out.
    ///
    /// # Errors
    /// None for a pair that was read; the types say otherwise.
    pub fn config(&self) -> Result<Config, Error> {
        self.with(&Table::new())
    }

    /// The pair's settings with those of `over` in place of its own. A reward model named there is
    /// read as `over` says, not as the pair's is.
    ///
    /// # Errors
    /// [`Error::ConfigFile`] for a key or a value in `over` that is not known.
    pub fn with(&self, over: &Table) -> Result<Config, Error> {
        let mut settings = self.settings.clone();
        let names_prm = over
            .get("models")
            .is_some_and(|models| models.get("prm").is_some());
        if names_prm && let Some(Value::Table(models)) = settings.get_mut("models") {
            models.remove("prm_format");
            models.remove("prm_reference");
        }
        lay_over(&mut settings, over);
        settings
            .try_into()
            .map_err(|error: toml::de::Error| Error::ConfigFile {
                path: PathBuf::from(&self.name),
                line: 1,
                reason: error.message().replace('\n', " "),
            })
    }
}

/// The name of a pair that is most like `name`.
fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let distance = |pair: &&str| strsim::damerau_levenshtein(&name, pair);
    BUILT_IN.iter().map(|(pair, _)| *pair).min_by_key(distance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use beamgen_engine::WeightType;

    #[test]
    fn every_file_is_a_pair_of_its_name_whose_settings_can_be_run() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/pairs");
        let mut files = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let pair = Pair::load(&path).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(path.file_stem().unwrap(), pair.name.as_str());
            assert_eq!(Pair::find(&pair.name).unwrap(), pair);
            assert!(pair.fits.is_some() && pair.memory.is_some() && pair.download.is_some());
            pair.config().unwrap().check().unwrap();
            files += 1;
        }
        let names: Vec<_> = Pair::all().map(|pair| pair.name).collect();
        assert_eq!(names.len(), files);
        assert!(names.is_sorted());
    }

    #[test]
    fn there_are_pairs_for_each_machine() {
        for fits in Fits::ALL {
            let count = Pair::all().filter(|pair| pair.fits == Some(fits)).count();
            assert!(count >= 2, "{fits}");
        }
    }

    #[test]
    fn a_name_that_is_not_known_is_told_with_the_nearest() {
        for (name, near) in [
            ("qwen2.5-math-1.5B", "qwen2.5-math-1.5b"),
            ("qwen-math-7b", "qwen2.5-math-7b"),
            ("lama3.2-1b", "llama3.2-1b"),
        ] {
            let error = Pair::find(name).unwrap_err();
            let text = error.to_string();
            assert!(error.is_input() && !text.contains('\n'), "{text}");
            assert!(
                text.contains(name) && text.ends_with(&format!("{near:?}")),
                "{text}"
            );
        }
    }

    const MINE: &str = r#"
        [pair]
        name = "mine"
        summary = "a pair of my own"
        [models]
        generator = "models/g"
        prm = "models/p"
        prm_format = "math-shepherd"
        prm_reference = "models/r"
        dtype = "bf16"
        [search]
        n = 8
        [generator]
        boundaries = "\n\n"
    "#;

    fn folder(text: &str) -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap().to_owned();
        (dir, path)
    }

    #[test]
    fn a_file_of_ones_own_is_a_pair() {
        let (_dir, path) = folder(MINE);
        let pair = Pair::find(&path).unwrap();
        assert_eq!((pair.name.as_str(), pair.fits), ("mine", None));
        let config = pair.config().unwrap();
        assert_eq!(config.generator.boundaries, ["\n\n"]);
        assert_eq!(config.search.n, 8);
        assert_eq!(config.search.m, Config::default().search.m);
        // As a settings file it says the same.
        assert_eq!(Config::load(Path::new(&path)).unwrap(), config);
        let builder = crate::Solver::builder()
            .pair(&path)
            .unwrap()
            .generator("x")
            .seed(7);
        assert_eq!(builder.settings().models.generator, Some("x".into()));
        assert_eq!(builder.settings().models.prm, Some("models/p".into()));
    }

    #[test]
    fn other_settings_lie_over_a_pairs() {
        let (_dir, path) = folder(MINE);
        let pair = Pair::find(&path).unwrap();
        let over: Table =
            "[search]\nm = 2\n[generator]\nboundaries = \"\\n\"\n[models]\ndtype = \"int8\""
                .parse()
                .unwrap();
        let config = pair.with(&over).unwrap();
        assert_eq!((config.search.n, config.search.m), (8, 2));
        assert_eq!(config.generator.boundaries, ["\n"]);
        assert_eq!(config.models.dtype, WeightType::Int8);
        assert_eq!(config.models.prm_format.as_deref(), Some("math-shepherd"));
        // Another reward model is another format.
        let over: Table = "[models]\nprm = \"models/q\"".parse().unwrap();
        let models = pair.with(&over).unwrap().models;
        assert_eq!(models.prm, Some("models/q".into()));
        assert_eq!((models.prm_format, models.prm_reference), (None, None));
        assert_eq!(models.generator, Some("models/g".into()));
    }

    #[test]
    fn faults_of_a_file_have_their_line() {
        for (from, to, words) in [
            ("[pair]", "[pairs]", ":2: unknown field `pairs`"),
            ("summary", "sumary", ":4: unknown field `sumary`"),
            ("boundaries", "boundary_", ":14: unknown field `boundary_`"),
            ("n = 8", "n = \"8\"", ":12: invalid type: string"),
            ("prm = \"models/p\"", "", ":1: a pair needs models.prm"),
            (
                "generator = \"models/g\"",
                "",
                ":1: a pair needs models.generator",
            ),
            (
                "summary = \"a pair of my own\"",
                "summary = \"\"\nmemory = { bf16 = \"big\", int8 = \"1 GB\" }",
                ":5: \"big\" is no size",
            ),
        ] {
            let (_dir, path) = folder(&MINE.replace(from, to));
            let error = Pair::find(&path).unwrap_err().to_string();
            assert!(error.contains(&format!("mine.toml{words}")), "{error}");
        }
        let (_dir, path) = folder("[models]\ngenerator = \"g\"\nprm = \"p\"\n");
        let error = Pair::find(&path).unwrap_err().to_string();
        assert!(
            error.ends_with(":1: a pair needs a table [pair]"),
            "{error}"
        );
        let error = Pair::find("no/such.toml").unwrap_err().to_string();
        assert!(error.starts_with("no/such.toml: "), "{error}");
    }
}

/// The figures of the files, computed anew by the plan that decides whether models fit: from files
/// that have the published models' tensors in name, shape and type, but no bytes.
#[cfg(all(test, unix))]
mod figures {
    use std::fs::File;
    use std::io::Write;

    use beamgen_engine::{Compute, ModelConfig, WeightType, Weights};
    use serde_json::json;

    use super::*;
    use crate::prepare::{longest_chain, memory};
    use crate::{KNOWN_MODELS, KnownModel, ModelKind};
    use crate::{MemoryPlan, human_size};

    fn known(name: &Path) -> &'static KnownModel {
        let name = name.to_str().unwrap();
        let model = KNOWN_MODELS.iter().find(|model| model.name == name);
        model.unwrap_or_else(|| panic!("{name} is not among KNOWN_MODELS"))
    }

    /// What the model's `config.json` says of its size.
    fn shape(model: &KnownModel) -> ModelConfig {
        let decoder = match (model.kind, model.read_as) {
            (ModelKind::Generator, family) => family,
            (ModelKind::Prm, "math-shepherd") => "mistral",
            (ModelKind::Prm, "rlhflow-llama3.1") => "llama",
            (ModelKind::Prm, _) => "qwen2",
        };
        let mut config = serde_json::to_value(model.shape).unwrap();
        config["model_type"] = decoder.into();
        config["max_position_embeddings"] = model.context.into();
        ModelConfig::from_json(&config.to_string(), Path::new(model.name)).unwrap()
    }

    /// Names and shapes of a decoder's tensors.
    fn tensors(c: &ModelConfig) -> Vec<(String, Vec<usize>)> {
        let (q, kv) = (
            c.num_attention_heads * c.head_dim,
            c.num_key_value_heads * c.head_dim,
        );
        let (hidden, wide) = (c.hidden_size, c.intermediate_size);
        let mut all = vec![
            (
                "model.embed_tokens.weight".to_owned(),
                vec![c.vocab_size, hidden],
            ),
            ("model.norm.weight".to_owned(), vec![hidden]),
        ];
        if !c.tie_word_embeddings {
            all.push(("lm_head.weight".to_owned(), vec![c.vocab_size, hidden]));
        }
        for layer in 0..c.num_hidden_layers {
            let mut put = |name: &str, shape: &[usize]| {
                all.push((format!("model.layers.{layer}.{name}"), shape.to_vec()));
            };
            for (name, outputs) in [("q", q), ("k", kv), ("v", kv)] {
                put(&format!("self_attn.{name}_proj.weight"), &[outputs, hidden]);
                if c.qkv_bias {
                    put(&format!("self_attn.{name}_proj.bias"), &[outputs]);
                }
            }
            put("self_attn.o_proj.weight", &[hidden, q]);
            put("mlp.gate_proj.weight", &[wide, hidden]);
            put("mlp.up_proj.weight", &[wide, hidden]);
            put("mlp.down_proj.weight", &[hidden, wide]);
            put("input_layernorm.weight", &[hidden]);
            put("post_attention_layernorm.weight", &[hidden]);
        }
        all
    }

    /// A safetensors file in bfloat16 whose values are a hole in the file.
    fn safetensors(tensors: &[(String, Vec<usize>)], path: &Path) -> u64 {
        let (mut header, mut at) = (serde_json::Map::new(), 0);
        for (name, shape) in tensors {
            let end = at + 2 * shape.iter().product::<usize>();
            let entry = json!({"dtype": "BF16", "shape": shape, "data_offsets": [at, end]});
            header.insert(name.clone(), entry);
            at = end;
        }
        let header = json!(header).to_string();
        let mut file = File::create(path).unwrap();
        file.write_all(&(header.len() as u64).to_le_bytes())
            .unwrap();
        file.write_all(header.as_bytes()).unwrap();
        let len = 8 + header.len() as u64 + at as u64;
        file.set_len(len).unwrap();
        len
    }

    /// A GGUF file of a Qwen2 whose matrices are in Q8_0, the rest in float32; its values are a
    /// hole.
    fn q8_0(c: &ModelConfig, tensors: &[(String, Vec<usize>)], path: &Path) -> u64 {
        let mut bytes = b"GGUF".to_vec();
        let string = |bytes: &mut Vec<u8>, text: &str| {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        };
        let integers = [
            ("embedding_length", c.hidden_size),
            ("block_count", c.num_hidden_layers),
            ("attention.head_count", c.num_attention_heads),
        ];
        bytes.extend(3u32.to_le_bytes());
        bytes.extend((tensors.len() as u64).to_le_bytes());
        bytes.extend((1 + integers.len() as u64).to_le_bytes());
        string(&mut bytes, "general.architecture");
        bytes.extend(8u32.to_le_bytes());
        string(&mut bytes, "qwen2");
        for (key, value) in integers {
            string(&mut bytes, &format!("qwen2.{key}"));
            bytes.extend(4u32.to_le_bytes());
            bytes.extend((value as u32).to_le_bytes());
        }
        let mut at = 0u64;
        for (name, shape) in tensors {
            let mut name = name.replace("model.layers.", "blk.");
            for (from, to) in [
                ("model.embed_tokens", "token_embd"),
                ("model.norm", "output_norm"),
                ("lm_head", "output"),
                ("self_attn.o_proj", "attn_output"),
                ("self_attn.", "attn_"),
                ("mlp.", "ffn_"),
                ("input_layernorm", "attn_norm"),
                ("post_attention_layernorm", "ffn_norm"),
                ("_proj", ""),
            ] {
                name = name.replace(from, to);
            }
            string(&mut bytes, &name);
            bytes.extend((shape.len() as u32).to_le_bytes());
            for size in shape.iter().rev() {
                bytes.extend((*size as u64).to_le_bytes());
            }
            let values = shape.iter().product::<usize>() as u64;
            let (kind, size) = match shape.len() {
                2 => (8u32, values / 32 * 34),
                _ => (0, values * 4),
            };
            bytes.extend(kind.to_le_bytes());
            bytes.extend(at.to_le_bytes());
            at = (at + size).next_multiple_of(32);
        }
        let len = (bytes.len() as u64).next_multiple_of(32) + at;
        let mut file = File::create(path).unwrap();
        file.write_all(&bytes).unwrap();
        file.set_len(len).unwrap();
        len
    }

    /// Size of the download and memory with weights in `dtype`.
    fn figures(pair: &Pair, dtype: WeightType) -> (u64, u64) {
        let dir = tempfile::tempdir().unwrap();
        let mut config = pair.config().unwrap();
        config.models.dtype = dtype;
        let mut plan = MemoryPlan::new(&Compute::Cpu, &config.engine).unwrap();
        let mut download = 0;
        for (role, name) in [("generator", &pair.generator), ("prm", &pair.prm)] {
            let model = known(name);
            let mut shape = shape(model);
            let tensors = tensors(&shape);
            let path = match name.extension().is_some_and(|e| e == "gguf") {
                true => {
                    let path = dir.path().join("model.gguf");
                    download += q8_0(&shape, &tensors, &path);
                    path
                }
                false => {
                    let folder = dir.path().join(role);
                    std::fs::create_dir(&folder).unwrap();
                    download += safetensors(&tensors, &folder.join("model.safetensors"));
                    folder
                }
            };
            let mut weights = Weights::load(path.as_path()).unwrap();
            // Read with a head of its own: then the language model's stays on the disk.
            if role == "prm" && !["math-shepherd", "rlhflow-llama3.1"].contains(&model.read_as) {
                weights.remove("lm_head.weight");
                shape.causal_lm = false;
            }
            let memory = memory(role, &shape, &weights, &config, &Compute::Cpu).unwrap();
            plan.models.push(memory);
        }
        let (longest, spare) = longest_chain(&config);
        (download, plan.needed(longest, spare))
    }

    #[test]
    fn download_and_memory_are_what_the_plan_computes() {
        let mut wrong = Vec::new();
        for pair in Pair::all() {
            let (download, bf16) = figures(&pair, WeightType::Bf16);
            let (_, int8) = figures(&pair, WeightType::Int8);
            let by_default = match pair.config().unwrap().models.dtype {
                WeightType::Int8 => int8,
                _ => bf16,
            };
            let fits = Fits::ALL
                .into_iter()
                .find(|fits| by_default <= fits.bytes());
            let computed = (
                fits,
                Some(human_size(download)),
                Some([bf16, int8].map(human_size)),
            );
            let written = (
                pair.fits,
                pair.download.map(human_size),
                pair.memory
                    .map(|memory| [memory.bf16, memory.int8].map(human_size)),
            );
            if computed != written {
                wrong.push(format!(
                    "{}: written {written:?}, computed {computed:?}",
                    pair.name
                ));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
