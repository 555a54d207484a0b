package api

import _ "embed"

// OpenAPI is the OpenAPI document of all answers of a server, as YAML.
//
//go:embed openapi.yaml
var OpenAPI string

// OpenAPIPath is the path of the document as JSON, on both addresses of a server.
const OpenAPIPath = "/openapi.json"
