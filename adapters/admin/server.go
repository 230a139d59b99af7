package admin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/penstock/penstock/events"
)

// Config of a Server. Metrics may be nil: then there is no /metrics.
type Config struct {
	Token    string // bearer token; "" is refused
	Version  string // of the gateway, for the OpenAPI document
	Ports    Ports
	Metrics  http.Handler
	Audit    Audit        // nil: there are no such routes
	Books    Books        // nil: the same
	Backups  Backups      // nil: the same
	Past     Past         // nil: the same
	Replays  Replays      // nil: none ever runs
	Feed     events.Feed  // nil: no live feed
	Webhooks Webhooks     // nil: no status of webhooks
	Limits   KeyLimits    // nil: no status of keys
	Ledger   Ledger       // nil: no money of users
	Reprice  Reprice      // nil: nothing is priced anew
	Logger   *slog.Logger // nil: slog.Default()
}

// Server is the control plane of one gateway.
type Server struct {
	ports Ports
	log   *slog.Logger
	token [sha256.Size]byte
	http  *http.Server
	api   huma.API
	live  liveFeed

	life context.Context // of all calls
	cut  context.CancelFunc

	instance string
	stallMax time.Duration
}

// InstanceHeader of /health is Instance: who looks for one gateway knows it from another one at the same address, whose token
// may be the same.
const InstanceHeader = "X-Penstock-Instance"

// NoSuchPath begins the detail of a 404 that is about the path, not about what it names.
const NoSuchPath = "no such path"

// Instance names this server until it ends. It is no secret.
func (s *Server) Instance() string { return s.instance }

// Limits of a request.
const (
	bodyMax       = 1 << 20  // bytes of one resource
	applyBodyMax  = 16 << 20 // bytes of a list of resources
	headerTimeout = 10 * time.Second
	strangerMax   = 10 * time.Second // for the body of a request without the token; as long again for taking its answer
	idleTimeout   = 2 * time.Minute
	stallMax      = 5 * time.Minute // of a client that takes nothing of its backup
	closeGrace    = 2 * time.Second // for calls that run when the server is closed
)

// New wires the routes. It does not listen.
func New(c Config) (*Server, error) {
	if c.Token == "" {
		return nil, errors.New("admin token is empty")
	}
	s := &Server{
		ports: c.Ports, log: c.Logger, token: sha256.Sum256([]byte(c.Token)), instance: rand.Text(), stallMax: stallMax,
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	mux := http.NewServeMux()
	s.api = humago.New(mux, apiConfig(c.Version))
	s.resourceRoutes()
	s.keyRoutes()
	s.applyRoute()
	s.requestRoutes()
	s.reportRoutes()
	s.replayRoutes(c.Past, c.Replays)
	s.liveRoutes()
	s.leaseRoutes()
	s.auditRoutes(c.Audit, c.Books)
	s.backupRoute(c.Backups)
	s.webhookRoutes(c.Webhooks)
	s.keyStatusRoute(c.Limits)
	s.ledgerRoutes(c.Ledger)
	s.repriceRoutes(c.Reprice)
	s.liveFeedRoutes(c.Feed)
	if c.Metrics != nil {
		mux.Handle("GET /metrics", c.Metrics)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { noRoute(mux, w, r) })
	s.http = &http.Server{
		Handler:           s.authenticate(mux),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	s.live.init(s.http)
	s.life, s.cut = context.WithCancel(context.Background())
	s.http.BaseContext = func(net.Listener) context.Context { return s.life }
	return s, nil
}

// apiConfig describes the API. No documentation page: it would load scripts from elsewhere.
func apiConfig(version string) huma.Config {
	config := huma.DefaultConfig("Penstock admin API", version)
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "the admin token"},
	}
	config.Security = []map[string][]string{{"token": {}}}
	config.DocsPath, config.SchemasPath = "", ""
	config.CreateHooks = nil // would add $schema to every answer
	config.Transformers = []huma.Transformer{withoutValues}
	config.RejectUnknownQueryParameters = true
	strict := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: readBody}
	config.Formats = map[string]huma.Format{"application/json": strict, "json": strict}
	// A deadline for the body would go on while the handler works: net/http reads ahead to notice a client that goes
	// away, takes the deadline for that, and cancels whatever takes longer, such as a replay. Only holders of the token
	// come this far.
	config.OnAddOperation = append(config.OnAddOperation, func(_ *huma.OpenAPI, op *huma.Operation) { op.BodyReadTimeout = -1 })
	return config
}

// Handler is the API without a listener.
func (s *Server) Handler() http.Handler { return s.http.Handler }

// Serve answers on the listener until Close; then it returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return errors.Wrapf(err, "serve admin API on %s", l.Addr())
	}
	return nil
}

// Close takes no more requests. Those that run may go on for a moment, then their contexts end: a replay takes longer than there is
// time, and what is closed behind this one needs some, too. What runs on when the context ends is cut.
func (s *Server) Close(ctx context.Context) error {
	defer s.cut()
	defer time.AfterFunc(closeGrace, s.cut).Stop()
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.CombineErrors(errors.Wrap(err, "close admin API"), s.http.Close())
	}
	return nil
}

// openPaths need no token (D34).
var openPaths = map[string]bool{"/metrics": true, "/health": true, "/healthz": true, "/api/health": true}

// authenticate lets requests with the token pass. It is read from where clients of LLM APIs put keys (D31).
func (s *Server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		known := s.known(presented(r.Header))
		s.hurry(w, !known)
		if !known && !openPaths[r.URL.Path] {
			w.Header().Set("WWW-Authenticate", `Bearer realm="penstock admin"`)
			writeProblem(w, http.StatusUnauthorized, "the admin token is missing or wrong; send it as Authorization: Bearer TOKEN")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hurry bounds how long a stranger may take with a request: one whose body never comes would keep its connection for ever,
// as the server reads it before it answers. Holders of the token take what time they need, see apiConfig; they may come on a
// connection that was a stranger's.
func (s *Server) hurry(w http.ResponseWriter, stranger bool) {
	var read, write time.Time
	if stranger {
		read = time.Now().Add(strangerMax)
		write = read.Add(strangerMax) // the answer may go out only when the body has not come
	}
	control := http.NewResponseController(w) // a recorder of a test has no deadlines
	_ = control.SetReadDeadline(read)
	_ = control.SetWriteDeadline(write)
}

func presented(h http.Header) string {
	if value := h.Get("Authorization"); value != "" {
		if scheme, token, ok := strings.Cut(value, " "); ok && strings.EqualFold(scheme, "bearer") {
			return strings.TrimSpace(token)
		}
		return value
	}
	if value := h.Get("X-Api-Key"); value != "" {
		return value
	}
	return h.Get("X-Goog-Api-Key")
}

// known compares digests, so that neither content nor length of the token can be found by timing.
func (s *Server) known(token string) bool {
	digest := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(digest[:], s.token[:]) == 1
}

// methods of the API, for telling a wrong method from a wrong path.
var methods = []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodPatch, http.MethodDelete}

func noRoute(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range methods {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		writeProblem(w, http.StatusNotFound, NoSuchPath+": "+r.URL.Path)
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	writeProblem(w, http.StatusMethodNotAllowed, r.URL.Path+" takes "+strings.Join(allowed, ", ")+", not "+r.Method)
}
