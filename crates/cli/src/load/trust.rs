//! Flags of the TLS of a generator: which certificates it trusts.

use crate::names::Server;
use crate::values::{Choices, one_of};
use clap::{Arg, Args};
use corelane_worker::tls::{CertificateFiles, Trust};
use std::path::PathBuf;

const SWITCH: &Choices<bool> = &[("on", true, "Enabled"), ("off", false, "Disabled")];

/// Certificate verification and session resumption.
#[derive(Debug, Args)]
pub struct TrustArguments {
    /// https: accept any certificate without verification; noted in the report
    #[arg(long)]
    pub insecure: bool,
    /// https: trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,
    /// https: certificate of this client with its chain, PEM, for servers that ask for one
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub certificate: Option<PathBuf>,
    /// https: private key of that certificate, PEM
    #[arg(
        long = "key",
        alias = "private-key",
        value_name = "FILE",
        requires = "certificate"
    )]
    pub private_key: Option<PathBuf>,
    /// https: resume TLS sessions on new connections
    #[arg(long, default_value = "on", value_parser = one_of(SWITCH), action = clap::ArgAction::Set)]
    pub resumption: bool,
}

impl TrustArguments {
    /// The first flag that differs from its default.
    pub fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--insecure", self.insecure),
            ("--ca", self.ca.is_some()),
            ("--certificate", self.certificate.is_some()),
            ("--resumption", !self.resumption),
        ];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// The trust in a server, if TLS is used.
    pub fn in_server(&self, server: &Server, tls: bool) -> Option<Trust> {
        match server {
            Server::Ip(target) if tls => Some(self.of(target.host())),
            _ => None,
        }
    }

    /// The trust in the server of this name.
    pub fn of(&self, server_name: String) -> Trust {
        Trust {
            server_name,
            insecure: self.insecure,
            ca: self.ca.clone(),
            resumption: self.resumption,
            certificate: (self.certificate.clone().zip(self.private_key.clone()))
                .map(|(certificate, key)| CertificateFiles { certificate, key }),
        }
    }
}

/// These flags, among those of a verb whose target does not name the scheme, need `--tls`.
pub fn with_tls(flag: Arg) -> Arg {
    match flag.get_help().map(ToString::to_string) {
        Some(help) if help.starts_with("https:") => {
            flag.help(help.replace("https:", "With --tls:")).requires("tls")
        }
        _ => flag,
    }
}
