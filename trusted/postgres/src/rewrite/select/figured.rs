//! The name that PostgreSQL gives a result which the statement does not name: `FigureColname` of its parser.

use crate::text::fold;
use sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, DataType, ExactNumberInfo, Expr, Ident, SelectItem, SetExpr, TimezoneInfo,
    TrimWhereField,
};

/// The name of what is none of the forms that have one.
const NONE: &str = "?column?";

/// The name of a result without an alias.
pub(super) fn figured(expression: &Expr) -> String {
    figure(expression).map_or_else(|| NONE.to_owned(), |(name, _)| name)
}

/// A name, and whether it is as good as that of a column: else an expression around it may have a better one.
fn figure(expression: &Expr) -> Option<(String, bool)> {
    let good = |name: &str| Some((name.to_owned(), true));
    match expression {
        Expr::Identifier(name) => Some((of_ident(name), true)),
        Expr::CompoundIdentifier(parts) => parts.last().map(|name| (of_ident(name), true)),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figure(inner),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(name)) => Some(of_ident(name)),
                _ => None,
            });
            field.map(|name| (name, true)).or_else(|| figure(root))
        }
        Expr::IsNormalized { .. } => good("is_normalized"),
        Expr::Cast { expr, data_type, .. } => {
            figure(expr).filter(|(_, good)| *good).or_else(|| Some((of_type(data_type)?, false)))
        }
        Expr::TypedString(typed) => Some((of_type(&typed.data_type)?, false)),
        Expr::Interval(_) => Some(("interval".into(), false)),
        Expr::Case { else_result, .. } => {
            let otherwise = else_result.as_ref().and_then(|otherwise| figure(otherwise));
            otherwise.filter(|(_, good)| *good).or_else(|| Some(("case".into(), false)))
        }
        Expr::Function(function) => {
            function.name.0.last().and_then(|part| part.as_ident()).map(|name| (of_ident(name), true))
        }
        Expr::Extract { .. } => good("extract"),
        Expr::Ceil { .. } => good("ceil"),
        Expr::Floor { .. } => good("floor"),
        Expr::Position { .. } => good("position"),
        Expr::Substring { shorthand, .. } => good(if *shorthand { "substr" } else { "substring" }),
        Expr::Overlay { .. } => good("overlay"),
        Expr::AtTimeZone { .. } => good("timezone"),
        Expr::Trim { trim_where, .. } => good(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            Some(TrimWhereField::Both) | None => "btrim",
        }),
        Expr::Exists { negated: false, .. } => good("exists"),
        Expr::Array(_) => good("array"),
        Expr::Tuple(_) => good("row"),
        Expr::Subquery(query) => {
            let first = match &*query.body {
                SetExpr::Select(select) => select.projection.first()?,
                SetExpr::Values(_) => return good("column1"),
                _ => return None,
            };
            match first {
                SelectItem::ExprWithAlias { alias, .. } => Some((of_ident(alias), true)),
                SelectItem::UnnamedExpr(first) => good(&figured(first)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn of_ident(name: &Ident) -> String {
    fold(&name.value, name.quote_style.is_some())
}

/// The name of a type in PostgreSQL's catalogue.
fn of_type(data_type: &DataType) -> Option<String> {
    let zoned = |zone: &TimezoneInfo, with: &'static str, without: &'static str| match zone {
        TimezoneInfo::WithTimeZone | TimezoneInfo::Tz => with,
        TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => without,
    };
    Some(match data_type {
        DataType::SmallInt(_) | DataType::Int2(_) => "int2".into(),
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => "int4".into(),
        DataType::BigInt(_) | DataType::Int8(_) => "int8".into(),
        DataType::Real | DataType::Float4 => "float4".into(),
        DataType::DoublePrecision | DataType::Float8 => "float8".into(),
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => "numeric".into(),
        DataType::Varchar(_) | DataType::CharacterVarying(_) | DataType::CharVarying(_) => "varchar".into(),
        DataType::Char(_) | DataType::Character(_) => "bpchar".into(),
        DataType::Boolean | DataType::Bool => "bool".into(),
        DataType::Text => "text".into(),
        DataType::Date => "date".into(),
        DataType::Bytea => "bytea".into(),
        DataType::Uuid => "uuid".into(),
        DataType::JSON => "json".into(),
        DataType::JSONB => "jsonb".into(),
        DataType::Timestamp(_, zone) => zoned(zone, "timestamptz", "timestamp").into(),
        DataType::Time(_, zone) => zoned(zone, "timetz", "time").into(),
        DataType::Interval { .. } => "interval".into(),
        DataType::Float(ExactNumberInfo::Precision(..=24)) => "float4".into(),
        DataType::Float(_) => "float8".into(),
        DataType::Bit(_) => "bit".into(),
        DataType::BitVarying(_) | DataType::VarBit(_) => "varbit".into(),
        DataType::Regclass => "regclass".into(),
        DataType::TsVector => "tsvector".into(),
        DataType::TsQuery => "tsquery".into(),
        DataType::Array(ArrayElemTypeDef::SquareBracket(inner, _)) => return of_type(inner),
        DataType::Custom(name, _) => of_ident(name.0.last()?.as_ident()?),
        _ => return None,
    })
}
