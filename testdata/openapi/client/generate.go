package client

// Only the operations with the tags claims and sales: what buyers' applications ask. The client
// for Go programs is that of salectl's package api.
//
//go:generate go tool oapi-codegen -config config.yaml -o client.go ../../../api/openapi.yaml
