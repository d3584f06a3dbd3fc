//! Functions that block, asked without waiting: a few threads of their own ask them.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::ArrayRef;

use super::{
    AsyncLookupFunction, LookupFunction, LookupHandle, LookupRequest, LookupRows, LookupSource,
};
use crate::error::{Error, Result};
use crate::types::ProcessingTime;

/// How many questions of a subtask are looked into at the same time.
const THREADS: usize = 4;

/// Asks the functions of a source on threads, which start with the first question and end with the function.
pub fn on_threads(source: Arc<dyn LookupSource>) -> Box<dyn AsyncLookupFunction> {
    Box::new(ThreadedLookup {
        source,
        questions: None,
    })
}

struct ThreadedLookup {
    source: Arc<dyn LookupSource>,
    questions: Option<Sender<Question>>,
}

struct Question {
    keys: Vec<ArrayRef>,
    now: ProcessingTime,
    answer: Sender<Result<LookupRows>>,
}

impl AsyncLookupFunction for ThreadedLookup {
    fn start(&mut self, request: &LookupRequest) -> Result<Box<dyn LookupHandle>> {
        let questions = match &self.questions {
            Some(questions) => questions,
            None => self.questions.insert(start_threads(&*self.source)?),
        };
        let (answer, answers) = channel();
        let question = Question {
            keys: request.keys.to_vec(),
            now: request.now,
            answer,
        };
        questions.send(question).map_err(|_| ended())?;
        Ok(Box::new(ThreadedHandle(answers)))
    }
}

fn start_threads(source: &dyn LookupSource) -> Result<Sender<Question>> {
    let (sender, receiver) = channel();
    let receiver = Arc::new(Mutex::new(receiver));
    for number in 0..THREADS {
        let (function, questions) = (source.function()?, receiver.clone());
        std::thread::Builder::new()
            .name(format!("volley-lookup-{number}"))
            .spawn(move || answer_all(function, &questions))
            .map_err(|error| Error::resource(format!("cannot start a thread: {error}")))?;
    }
    Ok(sender)
}

fn answer_all(mut function: Box<dyn LookupFunction>, questions: &Mutex<Receiver<Question>>) {
    loop {
        let next = questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let Ok(question) = next else { return };
        let rows = function.lookup(&LookupRequest {
            keys: &question.keys,
            now: question.now,
        });
        // Who asked may have given up.
        let _ = question.answer.send(rows);
    }
}

struct ThreadedHandle(Receiver<Result<LookupRows>>);

impl LookupHandle for ThreadedHandle {
    fn poll(&mut self) -> Option<Result<LookupRows>> {
        match self.0.try_recv() {
            Ok(rows) => Some(rows),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(ended())),
        }
    }

    fn wait(self: Box<Self>) -> Result<LookupRows> {
        self.0.recv().unwrap_or_else(|_| Err(ended()))
    }
}

fn ended() -> Error {
    Error::internal("a thread that looks rows up has ended")
}
