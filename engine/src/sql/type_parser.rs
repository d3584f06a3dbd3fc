//! The grammar of types: `ROW<a INT NOT NULL, b ARRAY<STRING>>`, `TIMESTAMP(3) WITH LOCAL TIME ZONE`, ….

use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::dialect::ParseNamePart;
use super::position::syntax_error;
use crate::types::{LogicalType, RowField, TypeRoot};

const KNOWN: &str = "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), CHAR(n), VARCHAR(n), STRING, \
                     BINARY(n), VARBINARY(n), BYTES, DATE, TIME, TIMESTAMP(p), TIMESTAMP_LTZ(p), INTERVAL, ARRAY<t>, \
                     MAP<k, v>, MULTISET<t>, ROW<name t, …>";

/// Reads a type with its nullability (nullable without NOT NULL).
pub(super) fn parse_type(parser: &mut Parser) -> Result<LogicalType, ParserError> {
    TypeParser {
        parser,
        closers: 0,
        depth: 0,
    }
    .parse()
}

/// How deep types may nest.
const MAX_DEPTH: usize = 64;

/// `closers`: angle brackets still owed by a `>>` token that was taken for one of two.
struct TypeParser<'a, 'p> {
    parser: &'a mut Parser<'p>,
    closers: usize,
    depth: usize,
}

impl TypeParser<'_, '_> {
    fn parse(&mut self) -> Result<LogicalType, ParserError> {
        if self.depth == MAX_DEPTH {
            return Err(ParserError::RecursionLimitExceeded);
        }
        self.depth += 1;
        let root = self.parse_root()?;
        self.depth -= 1;
        let mut result = LogicalType {
            root,
            nullable: self.parse_nullable()?,
        };
        while let Some(wrap) = self.parse_collection_suffix() {
            result = LogicalType {
                root: wrap(Box::new(result)),
                nullable: self.parse_nullable()?,
            };
        }
        Ok(result)
    }

    fn parse_nullable(&mut self) -> Result<bool, ParserError> {
        if self.closers > 0 {
            return Ok(true);
        }
        if self.parser.parse_keywords(&[Keyword::NOT, Keyword::NULL]) {
            return Ok(false);
        }
        let _ = self.parser.parse_keyword(Keyword::NULL);
        Ok(true)
    }

    /// `INT ARRAY`, `INT MULTISET`.
    fn parse_collection_suffix(&mut self) -> Option<fn(Box<LogicalType>) -> TypeRoot> {
        if self.closers > 0 {
            return None;
        }
        if self.parser.parse_keyword(Keyword::ARRAY) {
            return Some(TypeRoot::Array);
        }
        self.parser
            .parse_keyword(Keyword::MULTISET)
            .then_some(TypeRoot::Multiset as fn(Box<LogicalType>) -> TypeRoot)
    }

    fn parse_root(&mut self) -> Result<TypeRoot, ParserError> {
        let token = self.parser.next_token();
        let Token::Word(word) = &token.token else {
            return Err(syntax_error(
                format!("expected a type, found {}", token.token),
                &token,
            ));
        };
        let name = word.value.to_uppercase();
        match name.as_str() {
            "BOOLEAN" => Ok(TypeRoot::Boolean),
            "TINYINT" => Ok(TypeRoot::TinyInt),
            "SMALLINT" => Ok(TypeRoot::SmallInt),
            "INT" | "INTEGER" => Ok(TypeRoot::Int),
            "BIGINT" => Ok(TypeRoot::BigInt),
            "FLOAT" => Ok(TypeRoot::Float),
            "DOUBLE" => {
                let _ = self.parser.parse_keyword(Keyword::PRECISION);
                Ok(TypeRoot::Double)
            }
            "DECIMAL" | "DEC" | "NUMERIC" => self.parse_decimal(&token),
            "STRING" => Ok(TypeRoot::STRING),
            "BYTES" => Ok(TypeRoot::BYTES),
            "CHAR" | "CHARACTER" => self.parse_character(&token),
            "VARCHAR" => Ok(TypeRoot::Varchar(self.parse_length(&token)?)),
            "BINARY" => Ok(TypeRoot::Binary(self.parse_length(&token)?)),
            "VARBINARY" => Ok(TypeRoot::Varbinary(self.parse_length(&token)?)),
            "DATE" => Ok(TypeRoot::Date),
            "TIME" => self.parse_time(&token),
            "TIMESTAMP" => self.parse_timestamp(&token),
            "TIMESTAMP_LTZ" => Ok(TypeRoot::TimestampLtz(self.parse_precision(6, &token)?)),
            "INTERVAL" => self.parse_interval(&token),
            "ARRAY" => Ok(TypeRoot::Array(self.parse_element()?)),
            "MULTISET" => Ok(TypeRoot::Multiset(self.parse_element()?)),
            "MAP" => self.parse_map(),
            "ROW" => self.parse_row(),
            "RAW" | "STRUCTURED" | "VARIANT" | "BITMAP" | "NULL" | "TIMESTAMP_TZ" => Err(
                syntax_error(format!("the type {name} is not supported"), &token),
            ),
            _ => Err(syntax_error(
                format!("there is no type {} (types: {KNOWN})", word.value),
                &token,
            )),
        }
    }

    /// `(n)`, if it is there.
    fn parse_number(&mut self) -> Result<Option<u64>, ParserError> {
        if !self.parser.consume_token(&Token::LParen) {
            return Ok(None);
        }
        let number = self.parser.parse_literal_uint()?;
        self.parser.expect_token(&Token::RParen)?;
        Ok(Some(number))
    }

    fn parse_length(&mut self, at: &TokenWithSpan) -> Result<u32, ParserError> {
        let length = self.parse_number()?.unwrap_or(1);
        if length == 0 || length > i32::MAX as u64 {
            return Err(syntax_error(
                format!(
                    "the length {length} of {} is not between 1 and {}",
                    at.token,
                    i32::MAX
                ),
                at,
            ));
        }
        Ok(length as u32)
    }

    fn parse_character(&mut self, at: &TokenWithSpan) -> Result<TypeRoot, ParserError> {
        if self.parser.parse_keyword(Keyword::VARYING) {
            return Ok(TypeRoot::Varchar(self.parse_length(at)?));
        }
        Ok(TypeRoot::Char(self.parse_length(at)?))
    }

    fn parse_precision(&mut self, default: u8, at: &TokenWithSpan) -> Result<u8, ParserError> {
        match self.parse_number()? {
            None => Ok(default),
            Some(precision @ 0..=9) => Ok(precision as u8),
            Some(precision) => Err(syntax_error(
                format!(
                    "the precision {precision} of {} is not between 0 and 9",
                    at.token
                ),
                at,
            )),
        }
    }

    fn parse_decimal(&mut self, at: &TokenWithSpan) -> Result<TypeRoot, ParserError> {
        let (mut precision, mut scale) = (10, 0);
        if self.parser.consume_token(&Token::LParen) {
            precision = self.parser.parse_literal_uint()?;
            if self.parser.consume_token(&Token::Comma) {
                scale = self.parser.parse_literal_uint()?;
            }
            self.parser.expect_token(&Token::RParen)?;
        }
        if !(1..=38).contains(&precision) || scale > precision {
            return Err(syntax_error(
                format!(
                    "DECIMAL({precision}, {scale}): the precision is between 1 and 38, the scale between 0 and the precision"
                ),
                at,
            ));
        }
        Ok(TypeRoot::Decimal {
            precision: precision as u8,
            scale: scale as u8,
        })
    }

    fn parse_time(&mut self, at: &TokenWithSpan) -> Result<TypeRoot, ParserError> {
        let precision = self.parse_precision(0, at)?;
        self.parse_without_time_zone();
        Ok(TypeRoot::Time(precision))
    }

    fn parse_without_time_zone(&mut self) -> bool {
        self.parser
            .parse_keywords(&[Keyword::WITHOUT, Keyword::TIME, Keyword::ZONE])
    }

    fn parse_timestamp(&mut self, at: &TokenWithSpan) -> Result<TypeRoot, ParserError> {
        let precision = self.parse_precision(6, at)?;
        if self.parse_without_time_zone() {
            return Ok(TypeRoot::Timestamp(precision));
        }
        let local = [Keyword::WITH, Keyword::LOCAL, Keyword::TIME, Keyword::ZONE];
        if self.parser.parse_keywords(&local) {
            return Ok(TypeRoot::TimestampLtz(precision));
        }
        let zoned = [Keyword::WITH, Keyword::TIME, Keyword::ZONE];
        if self.parser.parse_keywords(&zoned) {
            return Err(syntax_error(
                "the type TIMESTAMP WITH TIME ZONE is not supported (use TIMESTAMP_LTZ)",
                at,
            ));
        }
        Ok(TypeRoot::Timestamp(precision))
    }

    fn parse_interval(&mut self, at: &TokenWithSpan) -> Result<TypeRoot, ParserError> {
        let root = self.parse_interval_field()?.ok_or_else(|| {
            syntax_error(
                "an INTERVAL type needs a unit, as in INTERVAL DAY TO SECOND",
                at,
            )
        })?;
        self.skip_precisions()?;
        if self.parser.parse_keyword(Keyword::TO) {
            let last = self.parse_interval_field()?;
            if last.as_ref() != Some(&root) {
                return Err(syntax_error(
                    "an INTERVAL type is of years and months or of days to seconds",
                    at,
                ));
            }
            self.skip_precisions()?;
        }
        Ok(root)
    }

    fn parse_interval_field(&mut self) -> Result<Option<TypeRoot>, ParserError> {
        let field = self.parser.parse_one_of_keywords(&[
            Keyword::YEAR,
            Keyword::QUARTER,
            Keyword::MONTH,
            Keyword::WEEK,
            Keyword::DAY,
            Keyword::HOUR,
            Keyword::MINUTE,
            Keyword::SECOND,
        ]);
        Ok(field.map(|field| match field {
            Keyword::YEAR | Keyword::QUARTER | Keyword::MONTH => TypeRoot::IntervalYearMonth,
            _ => TypeRoot::IntervalDayTime,
        }))
    }

    /// Intervals are held in months or milliseconds whatever precision is declared.
    fn skip_precisions(&mut self) -> Result<(), ParserError> {
        if self.parser.consume_token(&Token::LParen) {
            self.parser
                .parse_comma_separated(Parser::parse_literal_uint)?;
            self.parser.expect_token(&Token::RParen)?;
        }
        Ok(())
    }

    fn open(&mut self) -> Result<(), ParserError> {
        self.parser.expect_token(&Token::Lt).map(|_| ())
    }

    fn close(&mut self) -> Result<(), ParserError> {
        if self.closers > 0 {
            self.closers -= 1;
            return Ok(());
        }
        if self.parser.consume_token(&Token::ShiftRight) {
            self.closers = 1;
            return Ok(());
        }
        self.parser.expect_token(&Token::Gt).map(|_| ())
    }

    fn parse_element(&mut self) -> Result<Box<LogicalType>, ParserError> {
        self.open()?;
        let element = self.parse()?;
        self.close()?;
        Ok(Box::new(element))
    }

    fn parse_map(&mut self) -> Result<TypeRoot, ParserError> {
        self.open()?;
        let key = self.parse()?;
        self.parser.expect_token(&Token::Comma)?;
        let value = self.parse()?;
        self.close()?;
        Ok(TypeRoot::Map(Box::new(key), Box::new(value)))
    }

    fn parse_row(&mut self) -> Result<TypeRoot, ParserError> {
        let round = self.parser.consume_token(&Token::LParen);
        if !round {
            self.open()?;
        }
        let mut fields = vec![self.parse_field()?];
        while self.closers == 0 && self.parser.consume_token(&Token::Comma) {
            fields.push(self.parse_field()?);
        }
        if round {
            self.parser.expect_token(&Token::RParen)?;
        } else {
            self.close()?;
        }
        Ok(TypeRoot::Row(fields))
    }

    /// `name type ['comment']`.
    fn parse_field(&mut self) -> Result<RowField, ParserError> {
        let name = self.parser.parse_name_part()?;
        let logical_type = self.parse()?;
        if let Token::SingleQuotedString(_) = self.parser.peek_token_ref().token {
            self.parser.advance_token();
        }
        Ok(RowField {
            name: name.value,
            logical_type,
        })
    }
}
