package httpd

import (
	"net/http"
	"strings"

	"salectl/api"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/stream"
	"salectl/executor/httpd/wire"
)

// answer handles a request of buyers.
//
// It parses paths without http.ServeMux for two reasons. The id of a user may be any text, and
// ServeMux would redirect the ids "." and ".." to other pages. And its 404 and 405 responses are no
// problem documents.
func (server *Server) answer(w http.ResponseWriter, r *http.Request) {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), api.SalesPath)
	if !ok {
		server.answerElsewhere(w, r)
		return
	}
	name, rest, deeper := strings.Cut(rest, "/")
	kind, id, named := strings.Cut(rest, "/")
	if kind != "stream" { // a stream of clients waits itself; one of a peer must not wait
		server.awaitOpened(r.Context())
	}
	if kind == "webhooks" && id == paymentWebhook {
		server.withSale(w, r, http.MethodPost, name, func(sale *sale) { server.postWebhook(w, r, sale) })
		return
	}
	if kind == "stream" && !named && r.ProtoMajor < 2 && r.Method == http.MethodPost {
		stream.RefuseHTTP1(w)
		return
	}
	needs := access.MayClaim
	switch {
	case kind == "events":
		needs = access.MayFollow
	case kind == "stream" && stream.FromPeer(r):
		needs = access.MayOperate
	case kind == "claims" && strings.HasSuffix(id, "/"+string(api.Confirm)):
		needs = access.MayConfirm
	}
	grant, ok := server.letIn(w, r, needs)
	if !ok {
		return
	}
	get := func(f func(*sale)) { server.withSale(w, r, http.MethodGet, name, f) }
	post := func(f func(*sale)) { server.withSale(w, r, http.MethodPost, name, f) }
	switch {
	case !deeper:
		get(func(sale *sale) { sale.getSale(w, grant.Rights(), false) })
	case kind == "claims" && !named:
		post(func(sale *sale) { server.postClaim(w, r, sale) })
	case kind == "claims" && ofBuyers(id):
		post(func(sale *sale) { server.postSettlement(w, r, sale, id) })
	case kind == "claims" && id != "" && !strings.Contains(id, "/"):
		get(func(sale *sale) { sale.getClaim(w, r, id) })
	case kind == "stream" && !named:
		post(func(sale *sale) { server.streams.Serve(w, r, sale, grant) })
	case kind == "events" && !named:
		get(func(sale *sale) { server.feeds.Serve(w, r, sale.feed, grant) })
	case kind == "users" && named && !strings.Contains(id, "/"):
		get(func(sale *sale) { sale.getUser(w, r, id) })
	case kind == "claims" && strings.HasSuffix(id, "/"+string(api.Refund)):
		wire.WriteOtherAddress(w, "Refunds are requested at the admin address, that of --admin-listen of 'salectl serve'.")
	default:
		wire.WriteNoSuchPath(w)
	}
}

// answerElsewhere handles a request that concerns no single sale.
func (server *Server) answerElsewhere(w http.ResponseWriter, r *http.Request) {
	switch r.URL.EscapedPath() {
	case api.OpenAPIPath:
		if hasMethod(w, r, http.MethodGet) {
			getOpenAPI(w)
		}
	case api.AllSalesPath:
		server.awaitOpened(r.Context())
		if _, ok := server.letIn(w, r, access.MayClaim); ok && hasMethod(w, r, http.MethodGet) {
			writeSales(w, server.sales(), server.config.Clock().Wall)
		}
	default:
		wire.WriteNoSuchPath(w)
	}
}
