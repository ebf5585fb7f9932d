//! Rows as Parquet: one type a column, found from its cells.
//!
//! A column is of 64-bit integers, of doubles, of booleans or of texts, the first that writes all its cells again as they
//! are; empty cells are nulls. So a table that is written and read again is the same, and `2.20` stays a version.

use std::sync::Arc;

use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::record::Field;
use parquet::schema::types::{Type, TypePtr};

/// Rows of one row group.
const GROUP: usize = 100_000;

/// A table: the names of its columns, and its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The names of the columns.
    pub header: Vec<String>,
    /// As many cells each.
    pub rows: Vec<Vec<String>>,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Integers,
    Numbers,
    Booleans,
    Texts,
}

impl Of {
    fn cells<'a>(cells: impl Iterator<Item = &'a str> + Clone) -> Self {
        let filled = cells.filter(|cell| !cell.is_empty());
        if filled.clone().next().is_none() {
            return Self::Texts;
        }
        if filled.clone().all(|cell| integer(cell).is_some()) {
            Self::Integers
        } else if filled.clone().all(|cell| number(cell).is_some()) {
            Self::Numbers
        } else if filled.clone().all(|cell| matches!(cell, "true" | "false")) {
            Self::Booleans
        } else {
            Self::Texts
        }
    }

    fn schema(self, name: &str) -> Result<TypePtr, ParquetError> {
        let (physical, converted) = match self {
            Self::Integers => (Physical::INT64, ConvertedType::NONE),
            Self::Numbers => (Physical::DOUBLE, ConvertedType::NONE),
            Self::Booleans => (Physical::BOOLEAN, ConvertedType::NONE),
            Self::Texts => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
        };
        let builder = Type::primitive_type_builder(name, physical).with_converted_type(converted);
        Ok(Arc::new(builder.with_repetition(Repetition::OPTIONAL).build()?))
    }
}

fn integer(cell: &str) -> Option<i64> {
    cell.parse::<i64>().ok().filter(|value| value.to_string() == cell)
}

/// A number that is written again as it was: `1.5`, and `2` among such, but not `2.20`.
fn number(cell: &str) -> Option<f64> {
    let value = cell.parse::<f64>().ok()?;
    (integer(cell).is_some() || serde_json::Number::from_f64(value)?.to_string() == cell).then_some(value)
}

impl Rows {
    /// The table as a Parquet file.
    ///
    /// # Errors
    /// If a name is no name of a column.
    pub fn to_parquet(&self) -> Result<Vec<u8>, ParquetError> {
        let column = |at: usize| self.rows.iter().map(move |row| row.get(at).map_or("", String::as_str));
        let types: Vec<Of> = (0..self.header.len()).map(|at| Of::cells(column(at))).collect();
        let fields = self.header.iter().zip(&types).map(|(name, of)| of.schema(name)).collect::<Result<Vec<_>, _>>()?;
        let schema = Arc::new(Type::group_type_builder("sweep").with_fields(fields).build()?);
        let version = concat!("fabricsim ", env!("CARGO_PKG_VERSION")).to_owned();
        let properties = Arc::new(WriterProperties::builder().set_created_by(version).build());
        let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties)?;
        for rows in self.rows.chunks(GROUP) {
            let mut group = writer.next_row_group()?;
            let mut at = 0;
            while let Some(mut column) = group.next_column()? {
                write(&mut column, types[at], rows.iter().map(|row| row.get(at).map_or("", String::as_str)))?;
                column.close()?;
                at += 1;
            }
            group.close()?;
        }
        writer.into_inner()
    }

    /// The table in a Parquet file, each cell as it was before it was written.
    ///
    /// # Errors
    /// If it is no Parquet file of plain columns, or has no columns.
    pub fn from_parquet(bytes: Vec<u8>) -> Result<Self, ParquetError> {
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes))?;
        let fields = reader.metadata().file_metadata().schema().get_fields();
        let header = fields.iter().map(|field| field.name().to_owned()).collect();
        let mut rows = Vec::new();
        for row in reader.get_row_iter(None)? {
            let row = row?;
            let cells = row.get_column_iter().map(|(_, field)| match field {
                Field::Null => Ok(String::new()),
                Field::Bool(value) => Ok(value.to_string()),
                Field::Long(value) => Ok(value.to_string()),
                Field::Double(value) => {
                    Ok(serde_json::Number::from_f64(*value).map_or_else(String::new, |n| n.to_string()))
                }
                Field::Str(text) => Ok(text.clone()),
                other => Err(ParquetError::General(format!("a column of another kind: {other}"))),
            });
            rows.push(cells.collect::<Result<_, _>>()?);
        }
        Ok(Self { header, rows })
    }
}

/// Writes the cells of one column.
fn write<'a>(
    column: &mut SerializedColumnWriter<'_>,
    of: Of,
    cells: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), ParquetError> {
    let levels: Vec<i16> = cells.clone().map(|cell| i16::from(!cell.is_empty())).collect();
    let filled = cells.filter(|cell| !cell.is_empty());
    match of {
        Of::Integers => {
            let values: Vec<i64> = filled.filter_map(integer).collect();
            column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
        }
        Of::Numbers => {
            let values: Vec<f64> = filled.filter_map(number).collect();
            column.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
        }
        Of::Booleans => {
            let values: Vec<bool> = filled.map(|cell| cell == "true").collect();
            column.typed::<BoolType>().write_batch(&values, Some(&levels), None)?;
        }
        Of::Texts => {
            let values: Vec<ByteArray> = filled.map(ByteArray::from).collect();
            column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
        }
    }
    Ok(())
}
