//! Several runs in one: the documents of generators that ran at the same time, on one machine or many, added up.

use super::loaded::{ConnectionCounts, HttpBytes, HttpLoaded, PoolLoaded, RequestCounts};
use super::tls::TlsLoaded;
use crate::account::merge;
use corelane_measure::histogram::{Histogram, Summary};
use serde::{Deserialize, Serialize};

/// What several generators asked and got together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HttpMerged {
    /// `corelane/merged-http/1`.
    pub schema: String,
    /// Documents that went into it.
    pub documents: usize,
    /// Connections over all.
    pub connections: ConnectionCounts,
    /// Requests over all, by fate.
    pub requests: RequestCounts,
    /// Successful requests a second, as if all had run at the same time.
    pub requests_per_second: f64,
    /// Bytes over all.
    pub bytes: HttpBytes,
    /// As of one run, over all.
    pub latency: Option<Summary>,
    /// As of one run, over all.
    pub connect: Option<Summary>,
    /// As of one run, over all.
    #[serde(default)]
    pub handshake: Option<Summary>,
    /// As of one run, over all.
    #[serde(default)]
    pub tls: Option<TlsLoaded>,
    /// As of one run, over all.
    pub schedule_lag: Option<Summary>,
    /// What limited each generator that was limited.
    pub limited_by: Vec<String>,
    /// Pools of one name and target together.
    pub pools: Vec<PoolLoaded>,
}

impl HttpMerged {
    /// These documents as one.
    #[must_use]
    pub fn of(documents: &[HttpLoaded]) -> Self {
        let (mut connections, mut requests) = (ConnectionCounts::default(), RequestCounts::default());
        let mut bytes = HttpBytes::default();
        let mut pools: Vec<PoolLoaded> = Vec::new();
        for document in documents {
            connections.add(&document.connections);
            requests.add(&document.requests);
            bytes.add(&document.bytes);
            for pool in &document.pools {
                match pools
                    .iter_mut()
                    .find(|found| (&found.name, found.target) == (&pool.name, pool.target))
                {
                    Some(found) => found.add(pool),
                    None => pools.push(pool.clone()),
                }
            }
        }
        let over = |pick: fn(&PoolLoaded) -> &Option<Histogram>| {
            merge(pools.iter().filter_map(|pool| pick(pool).as_ref())).1
        };
        Self {
            schema: "corelane/merged-http/1".to_owned(),
            documents: documents.len(),
            connections,
            requests,
            requests_per_second: documents
                .iter()
                .map(|document| document.requests_per_second)
                .sum(),
            bytes,
            latency: over(|pool| &pool.latency_histogram),
            connect: over(|pool| &pool.connect_histogram),
            handshake: over(|pool| &pool.handshake_histogram),
            tls: TlsLoaded::sum(pools.iter().filter_map(|pool| pool.tls.as_ref())),
            schedule_lag: over(|pool| &pool.schedule_lag_histogram),
            limited_by: documents
                .iter()
                .filter_map(|document| document.limited_by.clone())
                .collect(),
            pools,
        }
    }
}

impl PoolLoaded {
    fn add(&mut self, other: &Self) {
        self.connections.add(&other.connections);
        self.requests.add(&other.requests);
        self.bytes.add(&other.bytes);
        let both = |one: &Option<Histogram>, other: &Option<Histogram>| merge(one.iter().chain(other));
        (self.latency_histogram, self.latency) = both(&self.latency_histogram, &other.latency_histogram);
        (self.connect_histogram, self.connect) = both(&self.connect_histogram, &other.connect_histogram);
        (self.handshake_histogram, self.handshake) =
            both(&self.handshake_histogram, &other.handshake_histogram);
        self.tls = TlsLoaded::sum(self.tls.iter().chain(&other.tls));
        (self.schedule_lag_histogram, self.schedule_lag) =
            both(&self.schedule_lag_histogram, &other.schedule_lag_histogram);
    }
}
