package httpd

import (
	"encoding/json"
	"net/http"
	"sync"

	"gopkg.in/yaml.v3"

	"salectl/api"
	"salectl/executor/httpd/wire"
)

// openAPI returns the OpenAPI document as JSON, made on the first call. A test ensures that it is YAML.
var openAPI = sync.OnceValue(func() []byte {
	var document map[string]any
	if err := yaml.Unmarshal([]byte(api.OpenAPI), &document); err != nil {
		panic(err)
	}
	body, err := json.Marshal(document)
	if err != nil {
		panic(err)
	}
	return body
})

// getOpenAPI answers GET /openapi.json. It needs no token: the document is about no sale.
func getOpenAPI(w http.ResponseWriter) {
	w.Header()["Content-Type"] = wire.JSONType
	w.Write(openAPI())
}
