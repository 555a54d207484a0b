// Package api defines the wire format between the servers of a sale and its buyers, and the
// client for buyers' programs.
//
// It has the requests and answers of the HTTP API (wire.go), the limits of requests
// (check.go), the table of outcomes (outcome.go), and a Client that sends a claim until it is
// decided. Server, command line, rehearsal, simulation and tests share these definitions. With
// Config.Stream the Client sends its requests over one stream to each server: a StreamConn
// (stream.go), with the messages of package streampb. Of the rest of this module the package
// depends only on package draw, so that other Go programs can use it.
package api

import (
	_ "embed"
	"net/url"
	"strconv"
)

// SalesPath is the prefix of all paths of the API. A sale's name follows.
const SalesPath = "/v1/sales/"

// AllSalesPath is the path of a server's list of sales.
const AllSalesPath = "/v1/sales"

// Paths on the admin address for whether a process runs, and whether it can sell.
const (
	AlivePath = "/healthz"
	ReadyPath = "/readyz"
)

// OpenAPI is the OpenAPI document of all answers of a server, as YAML.
//
//go:embed openapi.yaml
var OpenAPI string

// OpenAPIPath is the path of the document as JSON, on both addresses of a server.
const OpenAPIPath = "/openapi.json"

// KeyHeader is the request header with a claim's key. All requests of one user with the same
// key are one claim.
const KeyHeader = "Idempotency-Key"

// RequestIDHeader is the header with a request's id, in the request, its answer, and the
// server's log lines about it.
const RequestIDHeader = "X-Request-Id"

// Media types of answers.
const (
	TypeJSON    = "application/json"
	TypeProblem = "application/problem+json"
	TypeEvents  = "text/event-stream"
)

// OutcomeType is the prefix of the type of a problem document with an outcome. The type of a
// document without one is about:blank.
const OutcomeType = "urn:salectl:outcome:"

func salePath(sale string) string { return SalesPath + url.PathEscape(sale) }

func claimsPath(sale string) string { return salePath(sale) + "/claims" }

// EventsPath returns the path of the feed of a sale's ledger.
func EventsPath(sale string) string { return salePath(sale) + "/events" }

// query returns the page as the query of a URL.
func (p Page) query() string {
	q := make(url.Values)
	if p.Before != "" {
		q.Set("before", p.Before)
	}
	if p.Limit != 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// UserPath returns the path of a user's claims.
func UserPath(sale, user string) string { return salePath(sale) + "/users/" + url.PathEscape(user) }
