package httpd

import (
	"net/http"

	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
)

// letIn reports whether the token of a request has a right, and if not answers it.
func (s *Server) letIn(w http.ResponseWriter, r *http.Request, needs access.Rights) (grant access.Grant, ok bool) {
	grant = s.config.Tokens.OfRequest(r)
	switch missing := grant.May(needs); {
	case missing != nil:
		missing.Challenge(w.Header(), r)
		missing.Write(w)
		return grant, false
	case access.CrossOrigin(r):
		wire.WriteForbidden(w, "Web pages of other sites may not do this.")
		return grant, false
	}
	return grant, true
}

// hasMethod reports whether a request has the method, and if not answers it. HEAD is a GET.
func hasMethod(w http.ResponseWriter, r *http.Request, method string) bool {
	if r.Method == method || r.Method == http.MethodHead && method == http.MethodGet {
		return true
	}
	wire.WriteMethodNotAllowed(w, method)
	return false
}

// withSale calls f with the sale of that name, if it is served here and the request has the method, and
// otherwise answers the request.
func (s *Server) withSale(w http.ResponseWriter, r *http.Request, method, name string, f func(*sale)) {
	if !hasMethod(w, r, method) {
		return
	}
	sale, ok := s.sales()[name]
	if !ok {
		s.writeNotServed(w, name)
		return
	}
	f(sale)
}
