//! Parameters as a page is compiled: their fields, and the names that the page knows them by.

use super::build::PageParts;
use super::value::{List, Operand};
use crate::program::{
    FieldId, FieldType, FileFields, ListParam, PageProgram, Param, ParamTold, ParamType, Type,
};
use crate::source::declaration::{ERRORS, PageHeader, ParamKind};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Makes the fields of parameters.
pub(super) fn declare(
    header: &PageHeader<'_>,
    parts: &mut PageParts,
    names: &mut BTreeMap<String, Operand>,
) -> (Vec<Param>, Vec<ListParam>) {
    let (mut params, mut list_params) = (Vec::new(), Vec::new());
    let mut telling = (header.errors_are_values).then(|| Telling::new(parts));
    for param in &header.params {
        let name = &param.name.value;
        let carriers = param.carriers.clone();
        // Of what is typed, browsers let neither lists nor files be typed into a form beforehand.
        let is_typed = !matches!(
            param.kind,
            ParamKind::List { .. }
                | ParamKind::Scalar {
                    kind: ParamType::File { .. },
                    ..
                }
        );
        let told = match &mut telling {
            Some(telling) if param.is_typed() => Some(telling.of(name, is_typed, parts)),
            _ => None,
        };
        match &param.kind {
            ParamKind::Scalar {
                wire_name,
                kind,
                default,
            } => {
                if let ParamType::File { max_bytes } = kind {
                    let file = file_fields(name, *max_bytes, parts, names);
                    params.push(Param {
                        wire_name: wire_name.clone(),
                        carriers,
                        kind: kind.clone(),
                        default: default.clone(),
                        field: file.name,
                        file: Some(file),
                        told,
                    });
                    continue;
                }
                let of_field = FieldType::Scalar(kind.field_type());
                let field = parts.field(name.clone(), of_field);
                if let ParamType::Path { .. } = kind {
                    parts.paths.push(field);
                }
                let kind_of_page = kind.page_type();
                let operand = Operand::Field {
                    field,
                    kind: kind_of_page,
                };
                names.insert(name.clone(), operand);
                params.push(Param {
                    wire_name: wire_name.clone(),
                    carriers,
                    kind: kind.clone(),
                    default: default.clone(),
                    field,
                    file: None,
                    told,
                });
            }
            ParamKind::List {
                wire_name,
                has_records,
                columns,
                min_items,
                max_items,
            } => {
                let typed = |type_of: fn(&ParamType) -> Type| -> Vec<(String, Type)> {
                    let typed = |(name, _, kind): &(String, String, ParamType)| {
                        (name.clone(), type_of(kind))
                    };
                    columns.iter().map(typed).collect()
                };
                let of_field = FieldType::List(typed(ParamType::field_type));
                let field = parts.field(name.clone(), of_field);
                let list = List::of_field(field, typed(ParamType::page_type), None);
                names.insert(name.clone(), Operand::List(Rc::new(list)));
                let on_wire = |(_, wire_name, kind): &(String, String, ParamType)| {
                    (wire_name.clone(), kind.clone())
                };
                list_params.push(ListParam {
                    wire_name: wire_name.clone(),
                    has_records: *has_records,
                    carriers,
                    columns: columns.iter().map(on_wire).collect(),
                    min_items: *min_items,
                    max_items: *max_items,
                    field,
                    told,
                });
            }
        }
    }
    if let Some(telling) = telling {
        names.extend(telling.names());
    }
    (params, list_params)
}

/// Makes the fields of a file, and the record that the page knows it by.
fn file_fields(
    name: &str,
    max_bytes: u32,
    parts: &mut PageParts,
    names: &mut BTreeMap<String, Operand>,
) -> FileFields {
    let mut record = BTreeMap::new();
    let mut field = |attribute: &str, kind: Type| {
        let field = parts.field(format!("{name}.{attribute}"), FieldType::Scalar(kind));
        record.insert(attribute.to_owned(), Operand::Field { field, kind });
        field
    };
    let fields = FileFields {
        name: field("name", Type::Text),
        content_type: field("type", Type::Text),
        size: field("size", Type::Int),
        text: Some(field("text", Type::Text)),
        hex: Some(field("hex", Type::Text)),
        base64: Some(field("base64", Type::Text)),
    };
    let most = u64::from(max_bytes);
    for (field, attribute, bytes) in [
        (fields.text, "text", most),
        (fields.hex, "hex", 2 * most),
        (fields.base64, "base64", most.div_ceil(3) * 4),
    ] {
        let called = || (format!("{name}.{attribute}"), bytes);
        (parts.files).extend(field.map(|field| (field, called())));
    }
    names.insert(name.to_owned(), Operand::Record(Rc::new(record)));
    fields
}

/// What files hold is stored only as the page reads it.
pub(super) fn keep_what_is_read(program: &mut PageProgram) {
    let mut files: Vec<FileFields> = program
        .params
        .iter()
        .filter_map(|param| param.file)
        .collect();
    for file in &mut files {
        for field in [&mut file.text, &mut file.hex, &mut file.base64] {
            *field = field.filter(|field| program.reads(*field));
        }
    }
    let params = program
        .params
        .iter_mut()
        .filter_map(|param| param.file.as_mut());
    params.zip(files).for_each(|(file, kept)| *file = kept);
}

/// How a page is told of parameters that are wrong.
struct Telling {
    wrong: FieldId,
    errors: BTreeMap<String, Operand>,
    typed: BTreeMap<String, Operand>,
}

impl Telling {
    fn new(parts: &mut PageParts) -> Telling {
        Telling {
            wrong: parts.field(ERRORS[0], FieldType::Scalar(Type::Int)),
            errors: BTreeMap::new(),
            typed: BTreeMap::new(),
        }
    }

    /// The fields of a parameter.
    fn of(&mut self, name: &str, is_typed: bool, parts: &mut PageParts) -> ParamTold {
        let [errors, typed] = ERRORS;
        let mut text = |record: &str, names: &mut BTreeMap<String, Operand>| {
            let kind = Type::Text;
            let field = parts.field(format!("{record}.{name}"), FieldType::Scalar(kind));
            names.insert(name.to_owned(), Operand::Field { field, kind });
            field
        };
        ParamTold {
            wrong: self.wrong,
            error: text(errors, &mut self.errors),
            typed: is_typed.then(|| text(typed, &mut self.typed)),
        }
    }

    /// What the page knows them by.
    fn names(self) -> [(String, Operand); 2] {
        let (wrong, of) = (self.wrong, Rc::new(self.errors));
        let operands = [
            Operand::Errors { wrong, of },
            Operand::Record(Rc::new(self.typed)),
        ];
        let [errors, typed] = operands;
        [
            (ERRORS[0].to_owned(), errors),
            (ERRORS[1].to_owned(), typed),
        ]
    }
}
