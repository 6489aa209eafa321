//! The facts about a run's models that its run file contains.

use beamgen_engine::{KvType, WeightType};
use serde_json::{Map, Value, json};

use super::Prepared;
use super::judges::PreparedJudge;
use crate::Error;
use crate::config::ScorerKind;
use crate::own::Identity;

impl Prepared {
    /// Returns facts that the settings do not state, such as the device and its memory for caches.
    pub(super) fn effective(&self) -> Result<Map<String, Value>, Error> {
        let mut effective = Map::new();
        effective.insert("device".into(), self.memory.compute.to_string().into());
        let isa = self.config.engine.isa.resolved()?;
        effective.insert("isa".into(), isa.into());
        let kv: u64 = self.memory.plan.models.iter().map(|model| model.kv).sum();
        effective.insert("kv_bytes".into(), kv.into());
        if !self.memory.compute.is_cpu() {
            let graphs = self.config.engine.cuda_graphs && self.memory.compute.note().is_none();
            effective.insert("cuda_graphs".into(), graphs.into());
        }
        #[cfg(feature = "remote")]
        for (role, connection, facts) in &self.served.connections {
            let mut facts = serde_json::to_value(facts).unwrap_or_default();
            let addresses = connection.addresses().map(ToString::to_string);
            facts["urls"] = addresses.collect::<Vec<_>>().into();
            effective.insert(format!("{role}_server"), facts);
        }
        Ok(effective)
    }

    /// Returns the facts that the results depend on, besides the search settings: models,
    /// calibration, number types, and whether the device is CUDA.
    pub(super) fn identity(&self) -> Result<Map<String, Value>, Error> {
        let mut models = Map::new();
        let written_by = match (&self.generator.opened, &self.own.generator) {
            (Some(generator), _) => generator.fingerprint.clone().into(),
            (None, Some((Identity::Named(name), _))) => name.clone().into(),
            (None, Some((Identity::Facts(facts), _))) => Value::Object(facts.clone()),
            (None, None) => return Err(Error::NoGenerator),
        };
        models.insert("generator".into(), written_by);
        match (&self.own.scorer, &self.scorer.reward) {
            (Some((Identity::Named(name), _)), _) => {
                models.insert("scorer".into(), name.clone().into());
            }
            (Some((Identity::Facts(facts), _)), _) => models.extend(facts.clone()),
            (None, reward) => {
                // If no reward model is loaded, nothing is scored, even if the settings name a
                // scorer.
                let kind = match reward {
                    Some(_) => self.config.models.scorer,
                    None => ScorerKind::None,
                };
                models.insert("scorer".into(), kind.name().into());
            }
        }
        if let Some(reward) = &self.scorer.reward {
            reward.identify(&mut models);
        }
        if !self.judges.is_empty() {
            let judges = self.judges.iter().map(PreparedJudge::identify);
            models.insert("judges".into(), judges.collect());
            let rule = self.config.models.combine.to_string();
            models.insert("combine".into(), rule.into());
        }
        if let Some(found) = &self.scorer.calibration {
            let (name, score_as) = (found.calibration.name(), self.config.models.score_as);
            let facts = json!({"fitted": name, "score_as": score_as});
            models.insert("calibration".into(), facts);
        }
        // On the CPU, the types left out here keep the checkpoint's values exactly; all others
        // round. A CUDA device also rounds activations to the type of the weights.
        let (dtype, kv_dtype) = (self.config.models.dtype, self.config.engine.kv_dtype);
        let (cpu, arithmetic) = (self.memory.compute.is_cpu(), self.memory.plan.arithmetic);
        // Sums have another order in each of the CPU's types. `dtype` stays in the identity, too:
        // it also rounds an embedding that no product shares.
        if arithmetic.is_bf16() {
            models.insert("compute".into(), arithmetic.to_string().into());
        }
        if dtype != WeightType::Auto && !(cpu && dtype == WeightType::F32) {
            models.insert("dtype".into(), dtype.to_string().into());
        }
        if kv_dtype != KvType::Auto && !(cpu && kv_dtype == KvType::F32) {
            models.insert("kv_dtype".into(), kv_dtype.to_string().into());
        }
        // A CUDA device adds in another order, and by default stores keys and values with fewer
        // bits.
        if !cpu {
            models.insert("device".into(), "cuda".into());
        }
        Ok(models)
    }
}
