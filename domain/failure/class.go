package failure

// Class says what an attempt came to.
type Class string

// The classes.
const (
	OK               Class = "ok"
	Network          Class = "network" // no connection, or it broke before an answer
	ConnectTimeout   Class = "connect_timeout"
	FirstByteTimeout Class = "first_byte_timeout" // no response headers in time
	IdleTimeout      Class = "idle_timeout"       // the body stood still
	EmptyResponse    Class = "empty_response"     // a success without a body
	NoContentStream  Class = "no_content_stream"  // a stream that ended before content
	StreamCut        Class = "stream_cut"         // a stream that ended within content
	HTTP429          Class = "http_429"
	HTTP4xx          Class = "http_4xx"
	HTTP5xx          Class = "http_5xx"
	Overloaded       Class = "overloaded"     // 529, or said in words
	Auth             Class = "auth"           // the upstream does not accept our credential
	Quota            Class = "quota"          // the account has no money or quota left
	InvalidAnswer    Class = "invalid_answer" // not what the protocol says
	CallerFault      Class = "caller_fault"   // the request itself is wrong
	Cancelled        Class = "cancelled"      // the client has gone
	Local            Class = "local_fault"    // the gateway failed; the upstream did nothing
)

// Shared says that a failure is of the upstream as a whole, whichever account and model met it: where breakers guard
// single accounts and models, it counts for the upstream's as well.
func (c Class) Shared() bool { return c == Network || c == ConnectTimeout }

// Next is what follows an attempt.
type Next string

// The ways on.
const (
	Stop         Next = "stop"
	SameAccount  Next = "same_account" // once more on a new connection, or after a refresh
	NextAccount  Next = "next_account" // of the same upstream; when it has none left, the next upstream
	NextUpstream Next = "next_upstream"
)

// Event is how a call ended apart from its answer's status.
type Event uint8

// The events. Answered is the zero value: Status says the rest.
const (
	Answered      Event = iota
	ConnectFailed       // refused, unreachable, no such host, TLS
	ConnectTimedOut
	WriteFailed // the request could not be sent whole
	FirstByteTimeOut
	IdleTimeOut
	Reset            // the connection broke while reading
	EOFBeforeHeaders // the connection was closed without an answer
	ClientGone
	LocalError // before anything was sent, or our own doing
)
