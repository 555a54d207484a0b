package httpd

import (
	"encoding/json"
	"net/http"
	"sync"

	"gopkg.in/yaml.v3"

	"salectl/api"
	"salectl/executor/httpd/wire"
)

// openAPI returns the OpenAPI document as JSON, converted once. A test ensures that it is valid YAML.
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

// getOpenAPI handles GET /openapi.json. It needs no token: the document concerns no sale.
func getOpenAPI(w http.ResponseWriter) {
	w.Header()["Content-Type"] = wire.JSONType
	w.Write(openAPI())
}
