// SPDX-License-Identifier: GPL-2.0-only

//! Names of the counters of [`ddabi`], in the order in which they are declared there.

use ddabi::{
    counters::{AdmissionCounters, GuestCounters, HostCounters},
    pool::{Histogram, PoolStats},
    ssd::SsdStats,
};
use serde::{Serializer, ser::SerializeMap};

/// A structure of counters and histograms with names.
pub trait CounterFields {
    /// Returns each counter with its name.
    fn counters(&self) -> Vec<(&'static str, u64)>;
    /// Returns each histogram with its name.
    fn histograms(&self) -> Vec<(&'static str, &Histogram)>;
}

/// Lists all fields. A field that is added to the structure but not here is a compile error.
macro_rules! counter_fields {
    ($type:ident { $($counter:ident)* } { $($histogram:ident)* }) => {
        impl CounterFields for $type {
            fn counters(&self) -> Vec<(&'static str, u64)> {
                let Self { $($counter,)* $($histogram: _,)* } = self;
                vec![$((stringify!($counter), *$counter),)*]
            }

            fn histograms(&self) -> Vec<(&'static str, &Histogram)> {
                vec![$((stringify!($histogram), &self.$histogram),)*]
            }
        }
    };
}

counter_fields! {
    PoolStats {
        weight entitlement ssd_entitlement used puts put_refused_off put_refused_memory put_refused_fault gets hits
        misses flushes evictions moved_in moved_out hits_foreign get_batches put_batches put_refused_absent
        ssd_used ssd_puts ssd_hits ssd_flushes ssd_evictions demoted promoted put_refused_unproven
        evictions_unproven hits_retained put_refused_device
    } { get_latency put_latency ssd_get_latency }
}

counter_fields! {
    GuestCounters {
        calls put_calls get_calls flush_calls retries stale sessions put_offered put_stored
        put_skipped_mapping put_skipped_page put_skipped_io put_skipped_busy put_skipped_map
        put_retained put_skipped_slots put_skipped_off put_skipped_policy put_skipped_throttle put_refused read_absent get_asked get_hits get_misses
        changes invalidated evicted map_dropped map_files map_pages map_bytes flushes_waiting
    } { get_latency put_latency }
}

counter_fields! {
    AdmissionCounters {
        offered refused_policy refused_throttle reads way throttle history_bytes
        curve_error_permille
    } {}
}

counter_fields! {
    SsdStats {
        places segment_places segments free_segments used reads read_pages memory_pages read_errors
        timeouts refused_reads bad_checksums written_pages write_errors evicted_segments
        write_budget over_budget discarded_pages
    } {}
}

counter_fields! {
    HostCounters {
        calls refused_invalid refused_user refused_unsupported refused_session refused_rollback
        retries refused_fault refused_absent refused_limit refused_memory dirty_tracked gets_deferred
        vms_came vms_went eviction_batches evicted demoted promoted shrunk shrink_refused notices_lost events_dropped
        index_bytes
    } {}
}

/// Serializes counters as a flat map, and each histogram as an array of its buckets.
pub(crate) fn serialize<T: CounterFields, S: Serializer>(
    fields: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for (name, value) in fields.counters() {
        map.serialize_entry(name, &value)?;
    }
    for (name, buckets) in fields.histograms() {
        map.serialize_entry(name, buckets)?;
    }
    map.end()
}

/// Serializes as [`serialize`] does, or null if the counters are absent.
pub(crate) fn serialize_maybe<T: CounterFields, S: Serializer>(
    fields: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match fields {
        Some(fields) => serialize(fields, serializer),
        None => serializer.serialize_none(),
    }
}

/// Returns the JSON schema of what [`serialize`] writes.
#[cfg(feature = "schema")]
pub(crate) fn schema<T: CounterFields + Default>(
    generator: &mut schemars::SchemaGenerator,
) -> schemars::Schema {
    let fields = T::default();
    let (counters, histograms) = (fields.counters(), fields.histograms());
    let counter = generator.subschema_for::<u64>();
    let buckets = generator.subschema_for::<Histogram>();
    let names = counters.iter().map(|(name, _)| *name);
    let names: Vec<&str> = names
        .chain(histograms.iter().map(|(name, _)| *name))
        .collect();
    let properties: serde_json::Map<_, _> = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let schema = match index < counters.len() {
                true => counter.clone(),
                false => buckets.clone(),
            };
            ((*name).to_owned(), schema.to_value())
        })
        .collect();
    schemars::json_schema!({
        "type": "object",
        "properties": properties,
        "required": names,
    })
}

/// Returns the JSON schema of what [`serialize_maybe`] writes.
#[cfg(feature = "schema")]
pub(crate) fn schema_or_null<T: CounterFields + Default>(
    generator: &mut schemars::SchemaGenerator,
) -> schemars::Schema {
    let counters = schema::<T>(generator);
    schemars::json_schema!({ "anyOf": [counters, { "type": "null" }] })
}

/// Returns the upper end, in nanoseconds, of the bucket that contains the percentile `percent` (1
/// to 100) of all batches, or `None` if the histogram is empty.
pub fn quantile_ns(histogram: &Histogram, percent: u64) -> Option<u64> {
    let total: u64 = histogram.iter().sum();
    let wanted = u64::try_from((u128::from(total) * u128::from(percent)).div_ceil(100)).ok()?;
    let mut seen = 0;
    for (bucket, count) in histogram.iter().enumerate() {
        seen += count;
        if seen >= wanted && seen > 0 {
            return Some((2 << bucket) - 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use ddabi::pool::HISTOGRAM_BUCKETS;

    fn words<T: CounterFields + Default>() -> usize {
        let fields = T::default();
        fields.counters().len() + fields.histograms().len() * HISTOGRAM_BUCKETS
    }

    #[test]
    fn every_word_has_a_name() {
        assert_eq!(words::<PoolStats>() * 8, size_of::<PoolStats>());
        assert_eq!(words::<GuestCounters>() * 8, size_of::<GuestCounters>());
        assert_eq!(
            words::<AdmissionCounters>() * 8,
            size_of::<AdmissionCounters>()
        );
        assert_eq!(words::<HostCounters>() * 8, size_of::<HostCounters>());
    }

    #[test]
    fn quantiles_are_bucket_ends() {
        let mut histogram = Histogram::default();
        assert_eq!(quantile_ns(&histogram, 50), None);
        histogram[3] = 98;
        histogram[10] = 2;
        assert_eq!(quantile_ns(&histogram, 50), Some(15));
        assert_eq!(quantile_ns(&histogram, 98), Some(15));
        assert_eq!(quantile_ns(&histogram, 99), Some(2047));
        assert_eq!(quantile_ns(&histogram, 100), Some(2047));
    }
}
