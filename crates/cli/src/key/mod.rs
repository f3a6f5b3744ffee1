//! `corelane key`: audits and generates RSS keys.

mod audit;
mod generate;
mod traffic;

use crate::verbs::verbs;

verbs! {
    KeyWhat:
    Audit(audit::AuditArguments),
    Generate(generate::GenerateArguments),
}
