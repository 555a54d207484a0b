// Package wire has the form of requests and responses over HTTP: the JSON of claims, settlements
// and problem documents, and request ids.
//
// A parser accepts no more than the API describes: an object with an unknown or repeated field, or
// with text that is not UTF-8, is refused with a Problem that names the field. A refusal has the status,
// the document and the headers of its Problem: handlers return it, and Handler.ServeHTTP alone writes it.
//
// The package knows no sale and no server. Which requests are permitted, how large a body may be,
// and what an answer is, is up to its callers.
package wire
