//! Documents, histograms, medians, tables: data to text.
