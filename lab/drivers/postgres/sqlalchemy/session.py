"""A session through SQLAlchemy, Core and ORM, over psycopg 3: `session.py URL [--extra]`; see harness.py."""

import datetime as dt
import sys
import uuid
from decimal import Decimal
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import JSON, insert
from sqlalchemy.orm import DeclarativeBase, Mapped, joinedload, mapped_column, relationship, selectinload, sessionmaker

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import Session, arguments  # noqa: E402

UTC = dt.timezone.utc


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "accounts"
    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str] = mapped_column(sa.String(60), unique=True)
    balance: Mapped[Decimal | None] = mapped_column(sa.Numeric(12, 2), index=True)
    opened: Mapped[dt.date | None]
    seen: Mapped[dt.datetime | None] = mapped_column(sa.DateTime(timezone=True))
    active: Mapped[bool] = mapped_column(default=True)
    token: Mapped[uuid.UUID | None]
    picture: Mapped[bytes | None]
    settings: Mapped[dict | None] = mapped_column(JSON)
    score: Mapped[float | None] = mapped_column(sa.Double)
    visits: Mapped[int] = mapped_column(default=0)
    plan: Mapped[str] = mapped_column(sa.String(10), server_default="free")
    orders: Mapped[list["Order"]] = relationship(back_populates="account", cascade="all, delete-orphan", order_by="Order.id")


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str] = mapped_column(sa.ForeignKey("accounts.email", ondelete="CASCADE"), index=True)
    amount: Mapped[Decimal | None] = mapped_column(sa.Numeric(10, 2))
    note: Mapped[str | None]
    place: Mapped[str | None]
    account: Mapped[Account] = relationship(back_populates="orders")


ACCOUNTS = [
    {"email": f"{name}@example.org", "balance": balance, "opened": opened, "active": active, "visits": visits, "score": score}
    for name, balance, opened, active, visits, score in [
        ("ada", Decimal("100.50"), dt.date(2020, 1, 1), True, 3, 0.5),
        ("bob", Decimal("-20.00"), dt.date(2019, 5, 5), False, 3, 1.5),
        ("cid", None, None, True, 0, None),
        ("dan", Decimal("100.50"), dt.date(2021, 7, 7), True, 9, -2.25),
        ("eve", Decimal("0.01"), dt.date(2020, 1, 1), False, 7, 1e10),
    ]
]


def failure(error):
    if not isinstance(error, sa.exc.DBAPIError):
        return None
    said = error.orig.diag
    return {"sqlstate": said.sqlstate, "message": said.message_primary, "class": type(error).__name__}


def account(one):
    names = "id email balance opened seen active token picture settings score visits plan".split()
    return [getattr(one, name) for name in names]


def reflected(engine):
    inspector = sa.inspect(engine)
    got = {"tables": sorted(inspector.get_table_names())}
    for table in ["accounts", "orders"]:
        columns = [[c["name"], str(c["type"]), c["nullable"], c["default"]] for c in inspector.get_columns(table)]
        # Where an encrypted column's companions stand among the others is not the application's.
        got[table] = {
            "columns": columns,
            "key": inspector.get_pk_constraint(table)["constrained_columns"],
            "foreign keys": [[k["constrained_columns"], k["referred_table"], k["referred_columns"], k["options"]] for k in inspector.get_foreign_keys(table)],
            "unique": sorted(u["column_names"] for u in inspector.get_unique_constraints(table)),
            "indexes": sorted(([i["name"], i["column_names"], i["unique"]] for i in inspector.get_indexes(table)), key=str),
            "checks": inspector.get_check_constraints(table),
        }
    return got


def core(session, engine):
    accounts, orders = Account.__table__, Order.__table__

    def run(statement, values=None):
        with engine.begin() as db:
            result = db.execute(statement, values) if values is not None else db.execute(statement)
            return [list(row) for row in result] if result.returns_rows else result.rowcount

    session.step("insert many", lambda: run(accounts.insert(), ACCOUNTS))
    session.step("many rows returning", lambda: run(orders.insert().values(
        [{"owner": f"{name}@example.org", "amount": Decimal(cents) / 100, "note": f"note {cents}", "place": place}
         for name, cents, place in [("ada", 150, "x"), ("ada", 250, "y"), ("bob", 9999, "x"), ("dan", 1, None)]]
    ).returning(orders.c.id, orders.c.owner, orders.c.amount)))
    session.step("inserted key", lambda: run(accounts.insert().values(email="fay@example.org", visits=1, active=True).returning(accounts.c.id)))
    for name, statement in [
        ("select", select(accounts.c.email, accounts.c.balance).order_by(accounts.c.id)),
        ("where", select(accounts.c.email).where(accounts.c.balance > 0, accounts.c.active.is_(True)).order_by(accounts.c.id)),
        ("where true", select(accounts.c.email).where(accounts.c.active).order_by(accounts.c.id)),
        ("not", select(accounts.c.email).where(~accounts.c.active).order_by(accounts.c.id)),
        ("or", select(accounts.c.email).where((accounts.c.visits == 3) | (accounts.c.balance.is_(None))).order_by(accounts.c.id)),
        ("in", select(accounts.c.email).where(accounts.c.visits.in_([0, 7, 9])).order_by(accounts.c.email)),
        ("in nothing", select(accounts.c.email).where(accounts.c.visits.in_([]))),
        ("not in", select(accounts.c.email).where(accounts.c.visits.not_in([0, 7])).order_by(accounts.c.email.desc())),
        ("between", select(accounts.c.email).where(accounts.c.opened.between(dt.date(2019, 12, 31), dt.date(2020, 12, 31))).order_by(accounts.c.id)),
        ("order", select(accounts.c.email).order_by(accounts.c.balance.desc().nulls_last(), accounts.c.email).limit(3).offset(1)),
        ("group", select(accounts.c.visits, func.count(), func.sum(accounts.c.balance), func.max(accounts.c.opened))
            .group_by(accounts.c.visits).having(func.count() >= 1).order_by(accounts.c.visits)),
        ("aggregate", select(func.min(accounts.c.balance), func.max(accounts.c.email), func.avg(accounts.c.visits), func.count(accounts.c.balance.distinct()))),
        ("join", select(accounts.c.email, orders.c.amount).join(orders, orders.c.owner == accounts.c.email).order_by(orders.c.id)),
        ("outer join", select(accounts.c.email, func.sum(orders.c.amount)).outerjoin(orders).group_by(accounts.c.email).order_by(accounts.c.email)),
        ("exists", select(accounts.c.email).where(select(1).where(orders.c.owner == accounts.c.email).exists()).order_by(accounts.c.id)),
        ("scalar sub-query", select(accounts.c.email).where(accounts.c.balance == select(func.max(accounts.c.balance)).scalar_subquery()).order_by(accounts.c.id)),
        ("cte", select(sa.text("email")).select_from(select(accounts.c.email, accounts.c.visits).where(accounts.c.visits > 2).cte("busy")).order_by(sa.text("visits, email"))),
        ("union all", select(accounts.c.email).where(accounts.c.visits == 3).union_all(select(accounts.c.email).where(accounts.c.visits == 7))),
        ("alias", select(a := accounts.alias("left_one"), b := accounts.alias("right_one")).with_only_columns(a.c.email, b.c.email)
            .where(a.c.balance == b.c.balance, a.c.id < b.c.id)),
        ("case", select(accounts.c.id, sa.case((accounts.c.balance > 0, "plus"), else_="rest")).order_by(accounts.c.id)),
        ("window", select(accounts.c.email, func.row_number().over(partition_by=accounts.c.visits, order_by=accounts.c.email)).order_by(accounts.c.email)),
        ("count", select(func.count()).select_from(accounts)),
        ("count of a sub-query", select(func.count()).select_from(select(accounts.c.email).where(accounts.c.visits > 2).subquery())),
        ("distinct", select(accounts.c.opened).distinct().order_by(accounts.c.opened)),
        ("update", accounts.update().where(accounts.c.email == "bob@example.org").values(balance=Decimal("5.00"), seen=dt.datetime(2024, 1, 1, tzinfo=UTC))),
        ("update from old", accounts.update().where(accounts.c.visits > 0).values(visits=accounts.c.visits + 1).returning(accounts.c.email, accounts.c.visits)),
        ("upsert", insert(accounts).values(email="ada@example.org", visits=50, active=False).on_conflict_do_update(
            index_elements=[accounts.c.email], set_={"visits": 51}).returning(accounts.c.id, accounts.c.visits)),
        ("upsert of what was given", (i := insert(accounts).values(email="ada@example.org", visits=52, active=True)).on_conflict_do_update(
            index_elements=["email"], set_={"visits": i.excluded.visits}).returning(accounts.c.visits)),
        ("upsert nothing", insert(accounts).values(email="ada@example.org", visits=50, active=False).on_conflict_do_nothing()),
        ("delete", orders.delete().where(orders.c.amount < 1)),
        ("delete returning", orders.delete().where(orders.c.owner == "bob@example.org").returning(orders.c.id, orders.c.note)),
    ]:
        def made(statement=statement, name=name):
            got = run(statement)
            return sorted(got, key=str) if name in ("update from old", "union all") else got
        session.step(f"core: {name}", made)
    session.step("core: executemany of updates", lambda: run(
        accounts.update().where(accounts.c.email == sa.bindparam("who")).values(score=sa.bindparam("what")),
        [{"who": "ada@example.org", "what": 2.5}, {"who": "dan@example.org", "what": None}]))
    session.step("core: insert from select", lambda: run(
        orders.insert().from_select(["owner", "place"], select(accounts.c.email, sa.literal("selected")).where(accounts.c.visits > 8))))
    run(orders.delete().where(orders.c.place == "selected"))
    session.step("core: duplicate", lambda: run(accounts.insert().values(email="ada@example.org", visits=1, active=True)), error="23505")
    session.step("core: no such account", lambda: run(orders.insert().values(owner="nobody")), error="23503")
    session.refused("core: like", lambda: run(select(accounts.c.id).where(accounts.c.email.like("a%"))))


def mapped(session, Maker):
    def flushed():
        with Maker() as db:
            gus = Account(email="gus@example.org", balance=Decimal("7.77"), opened=dt.date(2022, 2, 2), token=uuid.UUID(int=7),
                          seen=dt.datetime(2024, 5, 6, 7, 8, 9, 123456, UTC), picture=b"\x00\x01", settings={"theme": ["dark", None]}, score=0.1)
            gus.orders = [Order(amount=Decimal(number), note=f"order {number}") for number in range(3)]
            db.add(gus)
            db.flush()
            got = [gus.id is not None, gus.plan, [order.owner for order in gus.orders]]
            db.commit()
            return [*got, account(gus)[1:]]

    def bulk():
        with Maker() as db:
            db.add_all([Account(email=f"bulk{number:03}@example.org", visits=number % 5, balance=Decimal(number)) for number in range(120)])
            db.commit()
            # A sequence gives numbers also to rows that are not stored: only their order is compared.
            ids = db.scalars(select(Account.id).where(Account.email >= "bulk", Account.email < "bull").order_by(Account.email)).all()
            return [len(ids), ids == sorted(ids)]

    def of_all_types():
        with Maker() as db:
            made = [
                Account(email=f"types{number}@example.org", balance=balance, opened=opened, seen=seen, active=active, token=token,
                        picture=picture, settings=settings, score=score, visits=visits)
                for number, (balance, opened, seen, active, token, picture, settings, score, visits) in enumerate([
                    (Decimal("-0.01"), dt.date(1, 1, 1), dt.datetime(2024, 1, 1, tzinfo=UTC), True, uuid.UUID(int=1), b"\x00'", {"a": [1, None]}, 0.1, 2147483647),
                    (None, None, None, False, None, None, None, None, 0),
                    (Decimal("9999999999.99"), dt.date(9999, 12, 31), dt.datetime(1, 1, 1, tzinfo=UTC), True, uuid.UUID(int=2), b"", [], -1e300, -2147483648),
                ])
            ]
            db.add_all(made)
            db.flush()
            got = [[one.id - made[0].id for one in made], [account(one)[1:] for one in db.scalars(
                select(Account).where(Account.email >= "types", Account.email < "typet").order_by(Account.email).execution_options(populate_existing=True))]]
            db.rollback()
            return got

    def returned():
        rows = [{"email": f"back{number}@example.org", "visits": number * 7 % 5} for number in range(7)]
        with Maker() as db:
            found = db.execute(sa.insert(Account).returning(Account.email, Account.visits, sort_by_parameter_order=True), rows).all()
            db.rollback()
            return [list(row) for row in found]

    def duplicate():
        with Maker() as db:
            db.add_all([Account(email="once@example.org"), Account(email="ada@example.org")])
            db.flush()

    def loaded(option):
        with Maker() as db:
            found = db.scalars(select(Account).options(option).where(Account.visits > 2, Account.email < "bulk").order_by(Account.email)).unique().all()
            return [[one.email, [[order.amount, order.note] for order in one.orders]] for one in found]

    def lazily():
        with Maker() as db:
            order = db.scalars(select(Order).where(Order.owner == "gus@example.org").order_by(Order.id)).first()
            return [order.account.email, order.account.balance, len(order.account.orders)]

    def changed():
        with Maker() as db:
            gus = db.scalars(select(Account).where(Account.email == "gus@example.org")).one()
            gus.balance += 1
            gus.settings = {"theme": "light"}
            gus.visits = Account.visits + 10
            gus.orders.pop()
            gus.orders.append(Order(amount=Decimal("0.10"), note=None))
            db.commit()
            return [gus.balance, gus.settings, gus.visits, [order.amount for order in gus.orders]]

    def renamed():
        with Maker() as db:
            gus = db.scalars(select(Account).where(Account.email == "gus@example.org")).one()
            gustav = Account(email="gustav@example.org", balance=gus.balance, visits=gus.visits)
            db.add(gustav)
            db.flush()
            gustav.orders = list(gus.orders)
            db.flush()
            db.delete(gus)
            db.commit()
            return [[order.owner, order.amount] for order in gustav.orders]

    def nested():
        with Maker() as db:
            db.add(Account(email="outer@example.org"))
            try:
                with db.begin_nested():
                    db.add(Account(email="ada@example.org"))
                    db.flush()
            except sa.exc.IntegrityError as error:
                state = error.orig.sqlstate
            db.commit()
            return [state, db.scalar(select(func.count()).where(Account.email.in_(["outer@example.org", "ada@example.org"])))]

    def bulk_update():
        with Maker() as db:
            done = db.execute(sa.update(Account).where(Account.email >= "bulk", Account.email < "bull").values(active=False))
            counts = [done.rowcount, db.scalar(select(func.count()).select_from(Account).where(~Account.active))]
            db.rollback()
            return counts

    def by_key():
        with Maker() as db:
            ids = db.execute(select(Account.id, Account.email).where(Account.email.in_(["ada@example.org", "cid@example.org"]))).all()
            db.execute(sa.update(Account), [{"id": id, "score": 4.5, "visits": 77} for id, _ in ids])
            db.commit()
            return [db.get(Account, id).score for id, _ in ids], db.scalar(select(func.sum(Account.visits)))

    def streamed():
        with Maker() as db:
            rows = db.execute(select(Account.email).order_by(Account.email).execution_options(yield_per=10))
            return [row.email for row in rows]

    def paged():
        with Maker() as db:
            return [db.scalars(select(Account.email).order_by(Account.email).limit(5).offset(5 * page)).all() for page in range(3)]

    def locked():
        with Maker() as db:
            return db.scalars(select(Account.email).where(Account.visits == 77).order_by(Account.email).with_for_update(skip_locked=True)).all()

    def deleted():
        with Maker() as db:
            gus = db.scalars(select(Account).where(Account.email == "gustav@example.org")).one()
            db.delete(gus)
            db.commit()
            done = db.execute(sa.delete(Account).where(Account.email >= "bulk", Account.email < "bull"))
            db.commit()
            return [done.rowcount, db.scalar(select(func.count()).select_from(Account)), db.scalar(select(func.count()).select_from(Order))]

    session.step("orm: flush", flushed)
    session.step("orm: many at once", bulk)
    session.step("orm: many of all types", of_all_types)
    session.step("orm: many, returned in their order", returned)
    session.step("orm: many, a duplicate", duplicate, error="23505")
    for name, option in [("joined", joinedload(Account.orders)), ("select in", selectinload(Account.orders))]:
        session.step(f"orm: {name} load", lambda o=option: loaded(o))
    session.step("orm: lazy load", lazily)
    session.step("orm: changes", changed)
    session.step("orm: another owner", renamed)
    session.step("orm: savepoint", nested)
    session.step("orm: update of many", bulk_update)
    session.step("orm: update by key", by_key)
    session.step("orm: server-side cursor", streamed)
    session.step("orm: pages", paged)
    session.step("orm: for update", locked)
    session.step("orm: delete", deleted)


def one_by_one(url):
    """Without what it does by default: `INSERT ... SELECT ... FROM (VALUES ...)`."""
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"), use_insertmanyvalues=False)
    Base.metadata.create_all(engine)
    try:
        with sessionmaker(engine)() as db:
            db.add_all([Account(email=f"{number}@example.org", balance=Decimal(number)) for number in range(20)])
            db.commit()
            return [db.scalar(select(func.count()).select_from(Account)), db.scalar(select(func.sum(Account.balance)))]
    finally:
        Base.metadata.drop_all(engine)
        engine.dispose()


def main():
    url, extra = arguments()
    session = Session(failure, extra)
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"), connect_args={"options": "-c TimeZone=UTC"})
    session.step("create all", lambda: Base.metadata.create_all(engine))
    session.step("create all again", lambda: Base.metadata.create_all(engine))
    session.step("inspect", lambda: reflected(engine))

    def automatic():
        metadata = sa.MetaData()
        metadata.reflect(engine)
        return sorted([table.name, [[c.name, repr(c.type), c.nullable, c.primary_key] for c in table.columns]] for table in metadata.sorted_tables)

    session.step("reflect", automatic)
    core(session, engine)
    mapped(session, sessionmaker(engine))
    session.step("drop all", lambda: Base.metadata.drop_all(engine))
    session.step("one insert for each row", lambda: one_by_one(url))
    session.step("nothing is left", lambda: sa.inspect(engine).get_table_names())


main()
