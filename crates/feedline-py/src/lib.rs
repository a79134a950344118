//! The compiled part of the Python package: `feedline._native`. What it offers is described in `_native.pyi`.

mod apart;
mod cli;
mod error;
mod example;
mod files;
mod generator;
mod host;
mod iterator;
mod lent;
mod log;
mod passes;
mod plan;
mod provenance;
mod quarantine;
mod spans;
mod structure;
mod table;
mod trace;
mod values;
mod worker;
mod writer;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<plan::PyPlan>()?;
    m.add_class::<values::Packed>()?;
    m.add_class::<iterator::Iterator>()?;
    m.add_class::<iterator::Moment>()?;
    m.add_class::<passes::PyPass>()?;
    m.add_class::<trace::Function>()?;
    m.add_class::<trace::Trace>()?;
    m.add_class::<writer::RecordWriter>()?;
    m.add_function(wrap_pyfunction!(plan::make, m)?)?;
    m.add_function(wrap_pyfunction!(plan::merge_states, m)?)?;
    m.add_function(wrap_pyfunction!(plan::unpickled, m)?)?;
    m.add_function(wrap_pyfunction!(plan::read_plan, m)?)?;
    m.add_function(wrap_pyfunction!(plan::reduce, m)?)?;
    m.add_function(wrap_pyfunction!(plan::what_if, m)?)?;
    m.add_function(wrap_pyfunction!(values::pack, m)?)?;
    m.add_function(wrap_pyfunction!(writer::save_dataset, m)?)?;
    m.add_function(wrap_pyfunction!(writer::save_set, m)?)?;
    m.add_function(wrap_pyfunction!(writer::shards_of_set, m)?)?;
    m.add_function(wrap_pyfunction!(structure::register_class, m)?)?;
    m.add_function(wrap_pyfunction!(trace::host_function, m)?)?;
    m.add_function(wrap_pyfunction!(trace::call, m)?)?;
    m.add_function(wrap_pyfunction!(trace::call_parts, m)?)?;
    m.add_function(wrap_pyfunction!(files::expand_files, m)?)?;
    m.add_function(wrap_pyfunction!(files::glob_files, m)?)?;
    m.add_function(wrap_pyfunction!(example::write_example, m)?)?;
    m.add_function(wrap_pyfunction!(example::write_sequence_example, m)?)?;
    m.add_function(wrap_pyfunction!(example::read_example, m)?)?;
    m.add_function(wrap_pyfunction!(example::read_sequence_example, m)?)?;
    m.add_function(wrap_pyfunction!(provenance::locate, m)?)?;
    m.add_function(wrap_pyfunction!(quarantine::quarantined, m)?)?;
    m.add_function(wrap_pyfunction!(quarantine::retry, m)?)?;
    m.add_function(wrap_pyfunction!(cli::cli, m)?)?;
    m.add_function(wrap_pyfunction!(table::functions, m)?)?;
    m.add_function(wrap_pyfunction!(table::operators, m)?)?;
    m.add_function(wrap_pyfunction!(table::configure, m)?)?;
    m.add_function(wrap_pyfunction!(table::configuration, m)?)?;
    m.add_function(wrap_pyfunction!(host::shutdown, m)?)?;
    m.add_function(wrap_pyfunction!(worker::serve, m)?)?;
    m.add_function(wrap_pyfunction!(passes::passes, m)?)?;
    m.add_function(wrap_pyfunction!(spans::start_spans, m)?)?;
    m.add_function(wrap_pyfunction!(spans::stop_spans, m)?)?;
    log::install();
    feedline_io::in_child(|| host::LINE.forget());
    Ok(())
}
