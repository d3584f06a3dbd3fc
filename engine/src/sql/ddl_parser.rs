//! The grammar of CREATE and DROP.

use std::collections::BTreeMap;

use sqlparser::ast::Expr;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::dialect::{ParseName, ParseNamePart};
use super::parser::{StatementParser, parsed};
use super::position;
use super::statement::{
    Column, ColumnKind, CreateTable, CreateView, Drop, PrimaryKey, Statement, Watermark,
};
use super::type_parser::parse_type;
use crate::error::{Error, Result};

impl StatementParser<'_> {
    pub(super) fn parse_create(&mut self) -> Result<Statement> {
        let refusal = self.refuse_statement();
        self.expect(Keyword::CREATE)?;
        if self.parser.peek_keyword(Keyword::OR) {
            return Err(refusal);
        }
        let temporary = self.parser.parse_keyword(Keyword::TEMPORARY);
        if self.parser.parse_keyword(Keyword::TABLE) {
            return self.parse_create_table(temporary);
        }
        if self.parser.parse_keyword(Keyword::VIEW) {
            return self.parse_create_view(temporary);
        }
        Err(refusal)
    }

    pub(super) fn parse_drop(&mut self) -> Result<Statement> {
        self.expect(Keyword::DROP)?;
        let temporary = self.parser.parse_keyword(Keyword::TEMPORARY);
        let kind = self.object_kind("DROP")?;
        let if_exists = self.parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        Ok(Statement::Drop(Drop {
            kind,
            temporary,
            if_exists,
            name: self.name()?,
        }))
    }

    fn if_not_exists(&mut self) -> bool {
        self.parser
            .parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS])
    }

    fn parse_create_table(&mut self, temporary: bool) -> Result<Statement> {
        let mut table = CreateTable {
            temporary,
            if_not_exists: self.if_not_exists(),
            name: self.name()?,
            columns: vec![],
            watermarks: vec![],
            primary_keys: vec![],
            options: BTreeMap::new(),
        };
        if self.parser.peek_keyword(Keyword::AS) {
            return Err(self.unsupported("CREATE TABLE … AS query"));
        }
        if self.parser.peek_keyword(Keyword::LIKE) {
            return Err(self.unsupported("LIKE of CREATE TABLE"));
        }
        self.expect_token(&Token::LParen)?;
        loop {
            self.parse_table_element(&mut table)?;
            if !self.parser.consume_token(&Token::Comma) {
                break;
            }
        }
        self.expect_token(&Token::RParen)?;
        self.parse_comment()?;
        self.refuse_partitions()?;
        if self.parser.parse_keyword(Keyword::WITH) {
            table.options = self.parse_options()?;
        }
        if self.parser.peek_keyword(Keyword::AS) {
            return Err(self.unsupported("CREATE TABLE … AS query"));
        }
        if self.parser.peek_keyword(Keyword::LIKE) {
            return Err(self.unsupported("LIKE of CREATE TABLE"));
        }
        Ok(Statement::CreateTable(table))
    }

    fn refuse_partitions(&self) -> Result<()> {
        if self.parser.peek_keyword(Keyword::PARTITIONED) {
            return Err(self.unsupported("PARTITIONED BY of CREATE TABLE"));
        }
        let token = self.parser.peek_token();
        match token.token {
            Token::Word(word) if word.value.eq_ignore_ascii_case("DISTRIBUTED") => {
                Err(self.unsupported("DISTRIBUTED of CREATE TABLE"))
            }
            _ => Ok(()),
        }
    }

    fn parse_table_element(&mut self, table: &mut CreateTable) -> Result<()> {
        let second = self.parser.peek_nth_token(1).token;
        let second = match &second {
            Token::Word(word) => word.keyword,
            _ => Keyword::NoKeyword,
        };
        let Token::Word(first) = self.parser.peek_token().token else {
            return self.name().map(|_| ());
        };
        let quoted = first.quote_style.is_some();
        match (first.keyword, second) {
            (_, Keyword::FOR) if !quoted && first.value.eq_ignore_ascii_case("WATERMARK") => {
                table.watermarks.push(self.parse_watermark()?)
            }
            (Keyword::PRIMARY, Keyword::KEY) if !quoted => {
                let key = self.parse_table_primary_key()?;
                table.primary_keys.push(key);
            }
            (Keyword::CONSTRAINT, _) if !quoted => {
                self.parser.advance_token();
                parsed(self.parser.parse_name_part())?;
                let key = self.parse_table_primary_key()?;
                table.primary_keys.push(key);
            }
            (Keyword::UNIQUE, _) if !quoted => {
                return Err(self.unsupported("the constraint UNIQUE"));
            }
            _ => self.parse_column(table)?,
        }
        Ok(())
    }

    fn parse_watermark(&mut self) -> Result<Watermark> {
        self.parser.advance_token();
        self.expect(Keyword::FOR)?;
        let column = parsed(self.parser.parse_identifiers_of_name())?;
        self.expect(Keyword::AS)?;
        let (expression, text) = self.expression()?;
        Ok(Watermark {
            column,
            expression,
            text,
        })
    }

    fn parse_table_primary_key(&mut self) -> Result<PrimaryKey> {
        let position = self.position();
        if self.parser.peek_keyword(Keyword::UNIQUE) {
            return Err(self.unsupported("the constraint UNIQUE"));
        }
        self.expect(Keyword::PRIMARY)?;
        self.expect(Keyword::KEY)?;
        let columns = self.names_in_parentheses()?;
        self.parse_not_enforced()?;
        Ok(PrimaryKey { columns, position })
    }

    fn parse_not_enforced(&mut self) -> Result<()> {
        let place = self.position();
        if self
            .parser
            .parse_keywords(&[Keyword::NOT, Keyword::ENFORCED])
        {
            return Ok(());
        }
        Err(Error::user("a primary key must be declared NOT ENFORCED")
            .at(place)
            .hint(
                "nothing checks it against the data, it is a promise: PRIMARY KEY (…) NOT ENFORCED",
            ))
    }

    fn parse_column(&mut self, table: &mut CreateTable) -> Result<()> {
        let name = parsed(self.parser.parse_name_part())?;
        if self.parser.parse_keyword(Keyword::AS) {
            let (expression, text) = self.expression()?;
            self.parse_comment()?;
            table.columns.push(Column {
                name,
                kind: ColumnKind::Computed(expression, text),
            });
            return Ok(());
        }
        let logical_type = parsed(parse_type(&mut self.parser))?;
        table.columns.push(Column {
            name: name.clone(),
            kind: ColumnKind::Physical(logical_type),
        });
        loop {
            let position = self.position();
            if self.parser.parse_keyword(Keyword::CONSTRAINT) {
                parsed(self.parser.parse_name_part())?;
            }
            if self
                .parser
                .parse_keywords(&[Keyword::PRIMARY, Keyword::KEY])
            {
                self.parse_not_enforced()?;
                table.primary_keys.push(PrimaryKey {
                    columns: vec![name.clone()],
                    position,
                });
            } else if !self.parse_comment()? {
                return self.refuse_column_option();
            }
        }
    }

    /// What may follow a column that we do not support.
    fn refuse_column_option(&self) -> Result<()> {
        match &self.parser.peek_token_ref().token {
            Token::Comma | Token::RParen => Ok(()),
            Token::Word(word) if word.value.eq_ignore_ascii_case("METADATA") => {
                Err(self.unsupported("a METADATA column"))
            }
            token => Err(Error::user(format!(
                "syntax error: expected a comma or ) behind the column, found {token}"
            ))
            .at(self.position())),
        }
    }

    /// `COMMENT 'text'`, which nothing shows yet.
    fn parse_comment(&mut self) -> Result<bool> {
        if !self.parser.parse_keyword(Keyword::COMMENT) {
            return Ok(false);
        }
        self.string("a comment")?;
        Ok(true)
    }

    /// `('key' = 'value', …)`.
    fn parse_options(&mut self) -> Result<BTreeMap<String, String>> {
        let mut options = BTreeMap::new();
        self.expect_token(&Token::LParen)?;
        loop {
            let place = self.position();
            let key = self.string("the key of an option")?;
            self.expect_token(&Token::Eq)?;
            let value = self.string("the value of an option")?;
            if options.insert(key.clone(), value).is_some() {
                return Err(Error::user(format!("the option '{key}' stands twice")).at(place));
            }
            if !self.parser.consume_token(&Token::Comma) {
                break;
            }
        }
        self.expect_token(&Token::RParen)?;
        Ok(options)
    }

    fn parse_create_view(&mut self, temporary: bool) -> Result<Statement> {
        let if_not_exists = self.if_not_exists();
        let name = self.name()?;
        let columns = if self.parser.peek_token_ref().token == Token::LParen {
            self.names_in_parentheses()?
        } else {
            vec![]
        };
        self.parse_comment()?;
        self.expect(Keyword::AS)?;
        let start = self.byte_offset();
        let query = self.query()?;
        let text = self.text_since(start);
        Ok(Statement::CreateView(CreateView {
            temporary,
            if_not_exists,
            name,
            columns,
            query,
            text,
        }))
    }

    /// An expression and how it was written.
    fn expression(&mut self) -> Result<(Expr, String)> {
        let start = self.byte_offset();
        let expression = parsed(self.parser.parse_expr())?;
        Ok((expression, self.text_since(start)))
    }

    /// Where the next token begins in the text.
    fn byte_offset(&self) -> usize {
        match self.parser.peek_token() {
            token if token.token == Token::EOF => self.text.len(),
            token => position::byte_offset(self.text, token.span.start),
        }
    }

    fn text_since(&self, start: usize) -> String {
        self.text[start..self.byte_offset()].trim_end().to_string()
    }
}
