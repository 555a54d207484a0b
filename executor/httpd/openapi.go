package httpd

import (
	"encoding/json"
	"net/http"
	"sync"

	"gopkg.in/yaml.v3"

	"salectl/api"
	"salectl/executor/httpd/wire"
)

// openAPI is the OpenAPI document as JSON, made when it is first asked for. A test reads it,
// so that it is YAML.
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

// getOpenAPI answers GET /openapi.json. It asks for no token: the document tells nothing of a
// sale.
func getOpenAPI(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		wire.WriteMethodNotAllowed(w, http.MethodGet)
		return
	}
	w.Header()["Content-Type"] = wire.JSONType
	w.Write(openAPI())
}
