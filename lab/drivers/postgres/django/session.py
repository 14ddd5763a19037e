"""A session through Django, its ORM, migrations and admin: `session.py URL [--extra]`; see harness.py."""

import datetime as dt
import re
import sys
import uuid
from decimal import Decimal
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
# An application of its own, which the migrations are written for.
sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness import Session, arguments  # noqa: E402


def configure(url):
    import django
    from django.conf import settings

    parts = urlsplit(url)
    options = {name: values[0] for name, values in parse_qs(parts.query).items()}
    settings.configure(
        SECRET_KEY="a session's own",
        ALLOWED_HOSTS=["testserver"],
        DATABASES={"default": {
            "ENGINE": "django.db.backends.postgresql", "NAME": parts.path[1:], "USER": parts.username, "PASSWORD": unquote(parts.password),
            "HOST": parts.hostname, "PORT": parts.port, "OPTIONS": options,
        }},
        INSTALLED_APPS=["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
                        "django.contrib.messages", "library"],
        MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware",
                    "django.contrib.messages.middleware.MessageMiddleware"],
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {"context_processors": [
            "django.template.context_processors.request", "django.contrib.auth.context_processors.auth", "django.contrib.messages.context_processors.messages"]}}],
        ROOT_URLCONF="library.urls",
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        USE_TZ=True,
        STATIC_URL="/static/",
    )
    django.setup()


def failure(error):
    from django.db import Error

    cause = getattr(error, "__cause__", None)
    if not isinstance(error, Error) or not hasattr(cause, "diag"):
        return None
    return {"sqlstate": cause.diag.sqlstate, "message": cause.diag.message_primary, "class": type(error).__name__}


def migrations(session):
    from django.core.management import call_command
    from django.db import connection
    from django.db.migrations.recorder import MigrationRecorder

    session.step("migrate", lambda: call_command("migrate", verbosity=0))
    session.step("migrations", lambda: sorted(map(list, MigrationRecorder(connection).applied_migrations())))
    session.step("nothing to migrate", lambda: call_command("migrate", verbosity=0))
    session.step("introspection", lambda: described(connection))


def described(connection):
    with connection.cursor() as cursor:
        got = []
        for table in ["library_author", "library_book"]:
            columns = connection.introspection.get_table_description(cursor, table)
            got.append(sorted([column.name, connection.introspection.get_field_type(column.type_code, column), column.null_ok] for column in columns))
            got.append(sorted([key, list(value)] for key, value in connection.introspection.get_relations(cursor, table).items()))
        return got


def writes(session):
    from library.models import Author, Book

    utc = dt.timezone.utc

    def created():
        ada = Author.objects.create(name="Ada Lovelace", born=dt.date(1815, 12, 10), code=uuid.UUID(int=1))
        bob = Author.objects.create(name="Bob Brown", born=None, active=False)
        zoe = Author.objects.create(name="Zoë Å", born=dt.date(1990, 1, 1))
        ada.books.create(title="Notes", price=Decimal("12.50"), stock=3, added=dt.datetime(2024, 1, 1, 12, tzinfo=utc), extra={"pages": [1, None]})
        bob.books.create(title="It's \"quoted\" %s", price=Decimal("0.99"), stock=0, notes="", added=dt.datetime(2023, 1, 1, tzinfo=utc))
        zoe.books.create(title="Ångström", price=None, stock=-5, added=None)
        return [author.name for author in Author.objects.order_by("name")]

    session.step("create", created)

    def at_once():
        author = Author.objects.create(name="Bulk")
        try:
            return len(Book.objects.bulk_create([Book(title=f"Volume {number:02}", author=author, price=Decimal(number)) for number in range(20)]))
        finally:
            author.delete()

    def one_by_one():
        author = Author.objects.get(name="Bob Brown")
        for number in range(20):
            Book.objects.create(title=f"Volume {number:02}", author=author, price=Decimal(number), stock=number % 4)
        return author.books.count()

    def of_all_types():
        # Django inserts many rows from arrays: `INSERT ... SELECT * FROM UNNEST(...)`.
        moments = [dt.datetime(2024, 1, day, 1, 2, 3, 456789, tzinfo=utc) for day in (1, 2, 3)]
        authors = Author.objects.bulk_create([
            Author(name="Array, \"quoted\" {brace}", born=dt.date(1, 1, 1), active=False, code=uuid.UUID(int=77)),
            Author(name="Array'd \\ Å", born=None, active=True, code=None), Author(name="ARRAY NULL", born=dt.date(9999, 12, 31)),
        ])
        books = Book.objects.bulk_create([
            Book(title=f"Array {number}", author=author, price=price, stock=stock, added=moment, notes=notes, extra=extra)
            for number, (author, price, stock, moment, notes, extra) in enumerate(zip(
                authors, [Decimal("-0.01"), None, Decimal("999999.99")], [2147483647, -1, 0], moments, ["", None, "NULL"],
                [{"a": [1, None, "\"q\""]}, None, "text"]))
        ])
        try:
            return [[author.pk is not None for author in authors], [book.pk is not None for book in books],
                    list(Author.objects.order_by("-id").values_list("name", "born", "active", "code")[:3]),
                    list(Book.objects.filter(title__gte="Array", title__lt="Arraz").order_by("title")
                         .values_list("title", "author__name", "price", "stock", "added", "notes", "extra")),
                    Book.objects.filter(price__gt=Decimal(5), title__gte="Array", title__lt="Arraz").count()]
        finally:
            for author in authors:
                author.delete()

    def conflicts():
        return [len(Author.objects.bulk_create([Author(name="Ada Lovelace"), Author(name="Temporary")], ignore_conflicts=True)),
                Author.objects.bulk_create([Author(name="Temporary", born=dt.date(1, 2, 3)), Author(name="Ada Lovelace", born=dt.date(1815, 12, 10))],
                                           update_conflicts=True, unique_fields=["name"], update_fields=["born"]) and None,
                Author.objects.filter(born=dt.date(1, 2, 3)).delete()[0]]

    session.step("bulk_create", at_once)
    session.step("bulk_create of all types", of_all_types)
    session.step("bulk_create, conflicts", conflicts)
    session.step("bulk_create, a duplicate", lambda: Author.objects.bulk_create([Author(name="Temporary"), Author(name="Ada Lovelace")]), error="23505")
    session.step("create many", one_by_one)
    session.step("get_or_create", lambda: [(made[0].name, made[1]) for made in [
        Author.objects.get_or_create(name="Ada Lovelace", defaults={"active": False}), Author.objects.get_or_create(name="Eve Evans", defaults={"active": False})]])
    session.step("update_or_create", lambda: [(made[0].name, made[0].born, made[1]) for made in [
        Author.objects.update_or_create(name="Eve Evans", defaults={"born": dt.date(2000, 2, 29)})]])
    session.step("duplicate", lambda: Author.objects.create(name="Ada Lovelace"), error="23505")


def queries(session):
    from django.db.models import Avg, Case, Count, Exists, F, Max, Min, OuterRef, Q, Subquery, Sum, Value, When
    from library.models import Author, Book

    books, authors = Book.objects, Author.objects
    utc = dt.timezone.utc
    for name, query in {
        "filter": lambda: books.filter(title="Notes").values_list("title", "price", "stock", "added", "extra"),
        "filter by relation": lambda: books.filter(author__name="Ada Lovelace").values_list("title", "author__name"),
        "exclude": lambda: authors.exclude(name="Bob Brown").order_by("name").values_list("name"),
        "exclude nulls": lambda: authors.exclude(born=dt.date(1990, 1, 1)).order_by("id").values_list("name", "born"),
        "less": lambda: books.filter(price__lt=5, stock__gte=1).order_by("price").values_list("title"),
        "range": lambda: books.filter(price__range=(Decimal("3"), Decimal("6.5"))).order_by("-price").values_list("price"),
        "in": lambda: books.filter(stock__in=[0, -5]).order_by("title").values_list("title"),
        "is null": lambda: books.filter(price__isnull=True).values_list("title"),
        "boolean": lambda: authors.filter(active=True).order_by("name").values_list("name", "active"),
        "not boolean": lambda: authors.filter(active=False).order_by("name").values_list("name"),
        "uuid": lambda: authors.filter(code=uuid.UUID(int=1)).values_list("name", "code"),
        "dates": lambda: authors.filter(born__gte=dt.date(1900, 1, 1)).order_by("born").values_list("born"),
        "moments": lambda: books.filter(added__lt=dt.datetime(2023, 6, 1, tzinfo=utc)).values_list("title", "added"),
        "Q": lambda: books.filter(Q(stock=3) & (Q(title__gt="V") | Q(price__isnull=True)) | ~Q(author__active=False)).order_by("title").values_list("title"),
        "order_by": lambda: books.order_by(F("price").desc(nulls_last=True), "title").values_list("title", "price")[:5],
        "slices": lambda: books.order_by("title").values_list("title")[3:6],
        "distinct": lambda: books.order_by("stock").values_list("stock").distinct(),
        "annotate": lambda: authors.annotate(n=Count("books"), most=Max("books__price"), total=Sum("books__stock")).order_by("name").values_list("name", "n", "most", "total"),
        "group by": lambda: books.values("stock").annotate(n=Count("id"), total=Sum("price")).order_by("stock").values_list("stock", "n", "total"),
        "having": lambda: authors.annotate(n=Count("books")).filter(n__gt=1).values_list("name", "n"),
        "exists": lambda: authors.filter(Exists(books.filter(author=OuterRef("pk"), price__gt=10))).order_by("name").values_list("name"),
        "case": lambda: books.annotate(kind=Case(When(price__gt=10, then=Value("dear")), default=Value("cheap"))).order_by("title").values_list("title", "kind")[:4],
        "raw": lambda: [[book.title, book.stock] for book in books.raw("SELECT id, title, stock FROM library_book WHERE stock = %s ORDER BY title", [3])],
    }.items():
        session.step(name, lambda q=query: list(q()))
    most = Subquery(books.filter(author=OuterRef("pk")).values("author").annotate(most=Max("price")).values("most"))
    session.step("sub-query of an aggregate", lambda: list(authors.annotate(most=most).order_by("name").values_list("name", "most")))
    session.step("sub-query in a condition", lambda: list(books.filter(title__in=Subquery(books.filter(stock__gt=1).values("title"))).order_by("title").values_list("title")))
    first = Subquery(books.filter(author=OuterRef("pk")).order_by("title").values("title")[:1])
    session.step("sub-query", lambda: list(authors.annotate(first=first).order_by("name").values_list("name", "first")))
    session.step("aggregate", lambda: books.aggregate(Count("id"), Sum("price"), Min("stock"), Max("title"), Avg("stock")))
    session.step("count", lambda: [books.filter(price__gt=2).count(), books.filter(title="none").exists(), books.filter(stock=3).exists()])
    session.step("select_related", lambda: [[book.title, book.author.name, book.author.born] for book in books.select_related("author").order_by("title")[:3]])
    session.step("prefetch_related", lambda: [[author.name, sorted(book.title for book in author.books.all())] for author in authors.prefetch_related("books").order_by("name")])
    session.step("iterator", lambda: sum(1 for _ in books.order_by("title").iterator(chunk_size=5)))
    session.step("in_bulk", lambda: sorted(author.name for author in authors.in_bulk(["Ada Lovelace", "Eve Evans"], field_name="name").values()))
    session.step("earliest and latest", lambda: [books.exclude(added=None).earliest("added").title, books.exclude(price=None).latest("price").title])
    session.refused("icontains", lambda: list(books.filter(title__icontains="vol")))


def changes(session):
    from django.db import IntegrityError, transaction
    from django.db.models import F
    from library.models import Author, Book

    def saved():
        book = Book.objects.get(title="Notes")
        book.price += 1
        book.notes = "changed"
        book.extra = {"pages": 2}
        book.save()
        book.refresh_from_db()
        return [book.price, book.notes, book.extra, book.added]

    def counted():
        Book.objects.filter(stock__gte=0).update(stock=F("stock") + 10)
        book = Book.objects.get(title="Notes")
        book.stock = F("stock") - 1
        book.save(update_fields=["stock"])
        book.refresh_from_db()
        return [book.stock, list(Book.objects.order_by("stock").values_list("stock", flat=True))[:3]]

    def bulk():
        books = list(Book.objects.filter(title__gte="Volume 15").order_by("title"))
        for number, book in enumerate(books):
            book.notes, book.price = f"bulk {book.title}", Decimal(7)
            book.added = None if number % 2 else dt.datetime(2025, 1, 1 + number, tzinfo=dt.timezone.utc)
            book.stock, book.extra = book.stock + number, {"bulk": [book.title]}
        with transaction.atomic():
            done = [Book.objects.bulk_update(books, ["notes", "price", "added", "stock", "extra"]), Book.objects.filter(price=7).count(),
                    list(Book.objects.filter(price=7).order_by("title").values_list("title", "notes", "added", "stock", "extra"))]
            transaction.set_rollback(True)
        return done

    def atomic():
        with transaction.atomic():
            Author.objects.create(name="Kept")
            try:
                with transaction.atomic():
                    Author.objects.create(name="Lost")
                    Author.objects.create(name="Kept")
            except IntegrityError:
                pass
        return sorted(Author.objects.values_list("name", flat=True))

    def locked():
        with transaction.atomic():
            author = Author.objects.select_for_update().get(name="Kept")
            author.active = False
            author.save()
        return Author.objects.filter(name="Kept", active=False).count()

    def deleted():
        return [Book.objects.filter(price=7).delete()[0], Author.objects.get(name="Bob Brown").delete()[1], Book.objects.count()]

    session.step("atomic", atomic)
    session.step("save", saved)
    session.step("F", counted)
    session.step("bulk_update", bulk)
    session.step("bulk_create, conflicts left out", lambda: [len(Author.objects.bulk_create([Author(name="Kept")], ignore_conflicts=True)), Author.objects.count()])
    session.step("bulk_create, conflicts updated", lambda: [Author.objects.bulk_create(
        [Author(name="Kept", born=dt.date(1, 1, 1))], update_conflicts=True, unique_fields=["name"], update_fields=["born"]) and None, Author.objects.filter(born=dt.date(1, 1, 1)).count()])
    session.step("select_for_update", locked)
    session.step("delete", deleted)


def admin(session):
    from django.contrib.auth.models import User
    from django.test import Client
    from library.models import Author, Book

    User.objects.create_superuser("root", password="root")
    client = Client()

    def shown(page):
        """The texts of a page's cells, or its errors."""
        text = page.content.decode()
        cells = re.findall(r'class="field-(?!__)(\w+)[^"]*">(?:<a [^>]*>)?(?:<img [^>]*alt="(\w+)"[^>]*>|([^<]*))', text)
        return [page.status_code, cells, re.findall(r'class="paginator">\s*([^<]*?)\s*<', text), re.findall(r'<ul class="errorlist[^>]*>(.*?)</ul>', text)]

    def post(path, values):
        page = client.post(path, values)
        return [page.status_code, re.findall(r'<ul class="errorlist[^>]*>(.*?)</ul>', page.content.decode()) if page.status_code == 200 else []]

    ada = lambda: Author.objects.get(name="Ada Lovelace").pk  # noqa: E731
    notes = {"title": "Edited", "author": "", "price": "3.25", "stock": "9", "added_0": "2024-05-05", "added_1": "10:00:00", "notes": "n", "extra": "{}"}
    session.step("admin: log in", lambda: client.login(username="root", password="root"))
    session.step("admin: index", lambda: client.get("/admin/").status_code)
    for name, path in {
        "list": "author/", "list, ordered": "author/?o=2", "search": "author/?q=Ada+Lovelace", "filter": "author/?active__exact=0",
        "books": "book/", "books, by price": "book/?o=-3", "search of books": "book/?q=Notes",
    }.items():
        session.step(f"admin: {name}", lambda p=path: shown(client.get(f"/admin/library/{p}")))
    session.step("admin: form", lambda: sorted(re.findall(r'name="(name|born|code|active)"[^>]*value="([^"]*)"', client.get(f"/admin/library/author/{ada()}/change/").content.decode())))
    session.step("admin: add", lambda: post("/admin/library/author/add/", {"name": "From Admin", "born": "1980-05-05", "active": "on", "code": ""}))
    session.step("admin: add a duplicate", lambda: post("/admin/library/author/add/", {"name": "From Admin", "born": ""}))
    session.step("admin: change", lambda: [post(f"/admin/library/author/{ada()}/change/", {"name": "Ada Lovelace", "born": "1815-12-11"}), Author.objects.get(name="Ada Lovelace").born])
    session.step("admin: add a book", lambda: [post("/admin/library/book/add/", {**notes, "author": ada()}), list(Book.objects.filter(title="Edited").values_list("price", "stock", "notes"))])
    session.step("admin: action", lambda: [client.post("/admin/library/book/", {
        "action": "delete_selected", "post": "yes", "_selected_action": [Book.objects.get(title="Edited").pk]}).status_code, Book.objects.filter(title="Edited").exists()])
    session.step("admin: history", lambda: client.get(f"/admin/library/author/{ada()}/history/").status_code)


def main():
    url, extra = arguments()
    configure(url)
    session = Session(failure, extra)
    migrations(session)
    writes(session)
    queries(session)
    changes(session)
    admin(session)


main()
