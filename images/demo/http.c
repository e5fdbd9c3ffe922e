// The guest's HTTP server: port 80, four addresses, everything else is 404.
//   /          the host name
//   /uptime    how long the guest has been up, in seconds
//   /boot      what /uptime was when this server began to listen
//   /instance  argv[1], the instance-id
//
// busybox's httpd can give the first and the last two, but nothing that changes
// without a /cgi-bin/ in the address, and a shell for each probe costs an
// emulated guest 15 ms of processor time. A process for each connection keeps a
// slow client from holding up the others, and leaves nothing behind.

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { port = 80, backlog = 512, client_seconds = 5 };

static void format_uptime(char *text, size_t size)
{
	struct timespec now;
	clock_gettime(CLOCK_BOOTTIME, &now);
	snprintf(text, size, "%lld.%02ld", (long long)now.tv_sec, now.tv_nsec / 10000000);
}

static int listen_on_port(void)
{
	// One IPv6 socket takes IPv4 clients too.
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int yes = 1;
	int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
	    listen(listener, backlog) != 0) {
		perror("http");
		return -1;
	}
	return listener;
}

// Reads up to the empty line that ends the header; a connection that is closed
// with something unread is reset, and the answer with it.
static int read_request(int client, char *request, size_t size)
{
	size_t length = 0;
	while (length < size - 1) {
		ssize_t count = read(client, request + length, size - 1 - length);
		if (count <= 0)
			return 0;
		length += (size_t)count;
		request[length] = '\0';
		if (strstr(request, "\r\n\r\n"))
			return 1;
	}
	return 0;
}

static void answer(int client, const char *boot, const char *instance)
{
	char request[8192], method[8], path[64], body[512] = "not found", reply[1024];
	int found = 1;
	if (!read_request(client, request, sizeof request) ||
	    sscanf(request, "%7s %63[^ ?\r\n]", method, path) != 2)
		return;
	if (strcmp(path, "/") == 0)
		gethostname(body, sizeof body);
	else if (strcmp(path, "/uptime") == 0)
		format_uptime(body, sizeof body);
	else if (strcmp(path, "/boot") == 0)
		snprintf(body, sizeof body, "%s", boot);
	else if (strcmp(path, "/instance") == 0)
		snprintf(body, sizeof body, "%s", instance);
	else
		found = 0;
	int length = snprintf(reply, sizeof reply,
			      "HTTP/1.1 %s\r\nContent-Type: text/plain\r\n"
			      "Content-Length: %zu\r\nConnection: close\r\n\r\n",
			      found ? "200 OK" : "404 Not Found", strlen(body) + 1);
	if (strcmp(method, "HEAD") != 0)
		length += snprintf(reply + length, sizeof reply - (size_t)length, "%s\n", body);
	send(client, reply, (size_t)length, MSG_NOSIGNAL);
}

int main(int argc, char **argv)
{
	char boot[32];
	int listener = listen_on_port();
	if (listener < 0)
		return 1;
	format_uptime(boot, sizeof boot);
	signal(SIGCHLD, SIG_IGN);  // so that ended children need no wait()
	for (;;) {
		int client = accept(listener, NULL, NULL);
		if (client < 0)
			continue;
		if (fork() == 0) {
			alarm(client_seconds);
			answer(client, boot, argc > 1 ? argv[1] : "");
			_exit(0);
		}
		close(client);
	}
}
