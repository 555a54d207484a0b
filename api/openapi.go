package api

import _ "embed"

// OpenAPI is the OpenAPI document of all that a server answers, as YAML.
//
//go:embed openapi.yaml
var OpenAPI string

// OpenAPIPath is where a server has the document as JSON, on both of its addresses.
const OpenAPIPath = "/openapi.json"
